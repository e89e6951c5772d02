//! Shapes with numbers in them: how large a buffer of a case is.

use super::{Case, ElementType, Expression, ExpressionError, Param, ParamKind, Scope};

/// Why a shape has no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    #[error("the side `{0}` is not positive")]
    Side(String),
    #[error("the buffer has more bytes than 64 bits can count")]
    Overflow,
    #[error("elements of type {0} have no size in bytes")]
    Reserved(ElementType),
}

/// The sides of `shape` in `scope`, outermost first; each is at least 1.
pub fn sides(shape: &[Expression], scope: &Scope) -> Result<Vec<u64>, ShapeError> {
    let side = |expression: &Expression| match u64::try_from(expression.evaluate(scope)?) {
        Ok(side) if side > 0 => Ok(side),
        Ok(_) | Err(_) => Err(ShapeError::Side(expression.to_string())),
    };
    shape.iter().map(side).collect()
}

/// Number of elements of `shape` in `scope`; an empty shape is one element.
pub fn element_count(shape: &[Expression], scope: &Scope) -> Result<u64, ShapeError> {
    sides(shape, scope)?
        .into_iter()
        .try_fold(1_u64, |product, side| product.checked_mul(side))
        .ok_or(ShapeError::Overflow)
}

/// Size in bytes of `count` elements.
pub fn byte_count(element: ElementType, count: u64) -> Result<u64, ShapeError> {
    let width = element.bytes().ok_or(ShapeError::Reserved(element))?;
    count.checked_mul(width).ok_or(ShapeError::Overflow)
}

impl Case {
    /// What the names in shapes and launches stand for in this case; device attributes are for the caller to
    /// add.
    pub fn scope(&self) -> Scope {
        self.dims.clone()
    }
}

impl Param {
    /// Size in bytes of a buffer parameter in `scope`; `None` for scalars.
    pub fn buffer_bytes(&self, scope: &Scope) -> Result<Option<u64>, ShapeError> {
        match &self.kind {
            ParamKind::Buffer { role: _, shape } => {
                byte_count(self.element, element_count(shape, scope)?).map(Some)
            }
            ParamKind::Integer { value: _ } | ParamKind::Float { value: _ } => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_products_and_faults_are_named() {
        let scope = Scope::from([("m".to_owned(), 31), ("z".to_owned(), 0), ("big".to_owned(), 1 << 40)]);
        let shape =
            |texts: &[&str]| -> Vec<Expression> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        assert_eq!(element_count(&shape(&["m", "2 * m"]), &scope), Ok(31 * 62));
        assert_eq!(element_count(&[], &scope), Ok(1));
        assert_eq!(element_count(&shape(&["z"]), &scope), Err(ShapeError::Side("z".to_owned())));
        assert_eq!(element_count(&shape(&["-m"]), &scope), Err(ShapeError::Side("-m".to_owned())));
        assert_eq!(element_count(&shape(&["big", "big"]), &scope), Err(ShapeError::Overflow));
        assert!(matches!(element_count(&shape(&["q"]), &scope), Err(ShapeError::Expression(_))));
        assert_eq!(byte_count(ElementType::F64, u64::MAX), Err(ShapeError::Overflow));
    }
}
