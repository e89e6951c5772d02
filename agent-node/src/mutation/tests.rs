//! Which mutants are made of which text, and that each is one change.

use super::*;

const KERNEL: &str = r#"#include <x.h>
#define WIDE 3
extern "C" __global__ void f(const double* x, float* y, int n) {
  __shared__ float s[32];
  double sum = 0;  // 1 + 1
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += fabs(x[i * 2]) + 0.5f;
  }
  s[threadIdx.x] = static_cast<float>(sum);
  __syncthreads();
  if (threadIdx.x >= 1 && n > 0) return;
  for (int i = 0; i < 32; ++i) y[blockIdx.x] = fmaxf(y[blockIdx.x],
      -s[i]);
}
"#;

fn changes(source: &str) -> Vec<(u32, Operator, String)> {
    mutants(source).iter().map(|mutant| (mutant.line, mutant.operator, mutant.change(source))).collect()
}

#[test]
fn every_kind_of_fault_is_put_where_it_belongs() {
    let all = changes(KERNEL);
    let has = |line: u32, operator: Operator, change: &str| {
        let found = all.iter().any(|one| *one == (line, operator, change.to_owned()));
        assert!(found, "line {line} {operator:?} {change} in {all:#?}");
    };
    has(4, Operator::Constant, "`32` to `31`");
    has(5, Operator::NarrowedType, "`double` to `float`");
    has(6, Operator::Relation, "`<` to `<=`");
    has(6, Operator::Bound, "insert `-1 +`");
    has(6, Operator::Stride, "`blockDim.x` to `2 * (blockDim.x)`");
    has(7, Operator::Assignment, "`+=` to `=`");
    has(7, Operator::DroppedCall, "drop `fabs`");
    has(7, Operator::Index, "`i * 2` to `(i * 2) + 1`");
    has(7, Operator::Arithmetic, "`*` to `/`");
    has(7, Operator::Constant, "`0.5f` to `(0.5f + 1)`");
    has(7, Operator::DroppedStatement, "drop `sum += fabs(x[i * 2]) + 0.5f;`");
    has(10, Operator::DroppedBarrier, "drop `__syncthreads();`");
    has(11, Operator::Logic, "`&&` to `||`");
    has(11, Operator::Condition, "`(threadIdx.x >= 1 && n > 0)` to `(!(threadIdx.x >= 1 && n > 0))`");
    has(11, Operator::DroppedStatement, "drop `return;`");
    has(12, Operator::Stride, "`++i` to `i += 2`");
    has(12, Operator::MinMax, "`fmaxf` to `fminf`");
    has(12, Operator::FirstBlock, "`blockIdx.x` to `0`");
}

#[test]
fn declarations_comments_templates_and_preprocessor_lines_are_left_alone() {
    let all = changes(KERNEL);
    assert!(all.iter().all(|(line, _, _)| *line > 3), "{all:#?}");
    assert!(!all.iter().any(|(line, _, change)| *line == 4 && change.contains("33")), "a larger array");
    assert!(!all.iter().any(|(line, operator, _)| *line == 9 && *operator == Operator::Relation), "a cast");
    // A sign and a pointer have one side.
    assert!(!all.iter().any(|(line, _, change)| *line == 13 && change.starts_with("`-`")), "{all:#?}");
    assert!(!all.iter().any(|(line, operator, _)| *line == 5 && *operator == Operator::DroppedStatement));
    assert!(mutants("").is_empty());
    assert!(mutants("int x = 1 + 2;").is_empty(), "nothing outside of a body");
}

#[test]
fn a_mutant_is_one_change_that_keeps_the_lines() {
    for mutant in mutants(KERNEL) {
        let text = mutant.applied(KERNEL);
        assert_ne!(text, KERNEL);
        assert_eq!(text.lines().count(), KERNEL.lines().count(), "{mutant:?}");
        let same = text.bytes().zip(KERNEL.bytes()).take_while(|(a, b)| a == b).count();
        assert!(same >= mutant.start, "{mutant:?}");
    }
}

#[test]
fn a_choice_is_spread_over_the_text_and_no_mutant_comes_twice() {
    let all = mutants(KERNEL);
    let few = spread(all.clone(), 5);
    assert_eq!(few.len(), 5);
    assert!(few.first().unwrap().line <= 7 && few.last().unwrap().line >= 12, "{few:?}");
    assert_eq!(spread(all.clone(), 1000), all);
    let mut texts: Vec<String> = all.iter().map(|mutant| mutant.applied(KERNEL)).collect();
    let count = texts.len();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), count);
}

proptest::proptest! {
    #[test]
    fn any_text_is_mutated_without_a_panic(text in "[-+*/<>=!&|(){}\\[\\];,.a-c0-2 \n#\"]{0,200}") {
        for mutant in mutants(&text) {
            mutant.applied(&text);
            mutant.change(&text);
        }
    }
}
