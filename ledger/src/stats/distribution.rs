//! Student's t, the normal and the binomial distribution: tail areas and quantiles in software arithmetic.
//!
//! The incomplete beta function by its continued fraction (Press et al., "Numerical Recipes", 3rd ed. 2007, §6.4; the
//! method of Lentz 1976 with the change of Thompson and Barnett 1986), quantiles by bisection of the tail area. Slow and
//! the same everywhere.

/// Terms of the continued fraction; it converges within O(√degrees) of them.
const TERMS_MAX: u32 = 1000;
/// Halvings of the bisection: more than a double has bits.
const HALVINGS: u32 = 80;
/// From here on t is the normal distribution to nine digits of its 97.5 % quantile.
const NORMAL_FROM: f64 = 1e9;

/// Area of the standard normal distribution above `z`.
pub fn normal_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / core::f64::consts::SQRT_2)
}

/// Area of Student's distribution with `degrees` of freedom above `t`; infinite degrees are the normal distribution.
pub fn student_tail(t: f64, degrees: f64) -> f64 {
    if degrees >= NORMAL_FROM {
        return normal_tail(t);
    }
    let above = 0.5 * incomplete_beta(0.5 * degrees, 0.5, degrees / (degrees + t * t));
    if t >= 0.0 { above } else { 1.0 - above }
}

/// The `t` below which the share `p` of Student's distribution lies; `p` is held within [2⁻⁶⁰, 1 − 2⁻⁵³].
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    let p = p.clamp(8.7e-19, 1.0 - f64::EPSILON / 2.0);
    if p < 0.5 {
        return -student_quantile(1.0 - p, degrees);
    }
    let above = 1.0 - p;
    let mut high = 1.0;
    while student_tail(high, degrees) > above && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if student_tail(middle, degrees) > above { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Chance of at most `most` heads in `throws` of a fair coin.
pub fn fair_coin_at_most(most: u64, throws: u64) -> f64 {
    let all = libm::lgamma(throws as f64 + 1.0);
    let mut sum = 0.0;
    for heads in 0..=most.min(throws) {
        let ways = all - libm::lgamma(heads as f64 + 1.0) - libm::lgamma((throws - heads) as f64 + 1.0);
        sum += libm::exp(ways - throws as f64 * core::f64::consts::LN_2);
    }
    sum.min(1.0)
}

/// The regularised incomplete beta function.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let logarithm =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let front = libm::exp(logarithm);
    // The fraction converges fast below this point and by symmetry above it.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let held = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / held(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for term in 1..=TERMS_MAX {
        let m = f64::from(term);
        for coefficient in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / held(1.0 + coefficient * d);
            c = held(1.0 + coefficient / c);
            value *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}
