// Words of two or four packed integers, and the fused minima and maxima of dynamic programming.
#pragma once

namespace muster {
template <class LANE, class STEP> static inline unsigned lanes(unsigned a, unsigned b, STEP step) {
  constexpr int BITS = 8 * int(sizeof(LANE));
  constexpr unsigned ONES = (1u << BITS) - 1u;
  unsigned result = 0;
  for (int at = 0; at < 32; at += BITS)
    result |= (unsigned(step(int(LANE(a >> at)), int(LANE(b >> at)))) & ONES) << at;
  return result;
}
template <class LANE, class STEP> static inline unsigned sum_of_lanes(unsigned a, unsigned b, STEP step) {
  unsigned sum = 0;
  for (int at = 0; at < 32; at += 8 * int(sizeof(LANE))) sum += unsigned(step(int(LANE(a >> at)), int(LANE(b >> at))));
  return sum;
}
template <class LANE> static inline int clamp(int value) {
  constexpr int LOW = std::numeric_limits<LANE>::min(), HIGH = std::numeric_limits<LANE>::max();
  return value < LOW ? LOW : value > HIGH ? HIGH : value;
}
}

#define MUSTER_LANES(NAME, LANE, EXPRESSION)                                                                         \
  static inline unsigned NAME(unsigned x, unsigned y) {                                                              \
    return muster::lanes<LANE>(x, y, [](int a, int b) { return EXPRESSION; });                                       \
  }
#define MUSTER_LANES_SUM(NAME, LANE, EXPRESSION)                                                                     \
  static inline unsigned NAME(unsigned x, unsigned y) {                                                              \
    return muster::sum_of_lanes<LANE>(x, y, [](int a, int b) { return EXPRESSION; });                                \
  }
#define MUSTER_LANE(NAME, LANE, EXPRESSION)                                                                          \
  static inline unsigned NAME(unsigned x) {                                                                          \
    return muster::lanes<LANE>(x, 0u, [](int a, int) { return EXPRESSION; });                                        \
  }
#define MUSTER_LANES_COMPARED(N, WORD, LANE, OP)                                                                     \
  MUSTER_LANES(__vcmp##WORD##N, LANE, a OP b ? -1 : 0)                                                               \
  MUSTER_LANES(__vset##WORD##N, LANE, a OP b ? 1 : 0)
#define MUSTER_PACKED(N, S, U)                                                                                       \
  MUSTER_LANES(__vadd##N, U, a + b)                                                                                  \
  MUSTER_LANES(__vaddss##N, S, muster::clamp<S>(a + b))                                                              \
  MUSTER_LANES(__vaddus##N, U, muster::clamp<U>(a + b))                                                              \
  MUSTER_LANES(__vsub##N, U, a - b)                                                                                  \
  MUSTER_LANES(__vsubss##N, S, muster::clamp<S>(a - b))                                                              \
  MUSTER_LANES(__vsubus##N, U, muster::clamp<U>(a - b))                                                              \
  MUSTER_LANES(__vavgs##N, S, (a + b + (a + b >= 0 ? 1 : 0)) >> 1)                                                   \
  MUSTER_LANES(__vavgu##N, U, (a + b + 1) >> 1)                                                                      \
  MUSTER_LANES(__vhaddu##N, U, (a + b) >> 1)                                                                         \
  MUSTER_LANES(__vmaxs##N, S, a > b ? a : b)                                                                         \
  MUSTER_LANES(__vmaxu##N, U, a > b ? a : b)                                                                         \
  MUSTER_LANES(__vmins##N, S, a < b ? a : b)                                                                         \
  MUSTER_LANES(__vminu##N, U, a < b ? a : b)                                                                         \
  MUSTER_LANES(__vabsdiffs##N, S, a > b ? a - b : b - a)                                                             \
  MUSTER_LANES(__vabsdiffu##N, U, a > b ? a - b : b - a)                                                             \
  MUSTER_LANES_SUM(__vsads##N, S, a > b ? a - b : b - a)                                                             \
  MUSTER_LANES_SUM(__vsadu##N, U, a > b ? a - b : b - a)                                                             \
  MUSTER_LANE(__vabs##N, S, a < 0 ? -a : a)                                                                          \
  MUSTER_LANE(__vabsss##N, S, muster::clamp<S>(a < 0 ? -a : a))                                                      \
  MUSTER_LANE(__vneg##N, S, -a)                                                                                      \
  MUSTER_LANE(__vnegss##N, S, muster::clamp<S>(-a))                                                                  \
  MUSTER_LANES_COMPARED(N, eq, U, ==)                                                                                \
  MUSTER_LANES_COMPARED(N, ne, U, !=)                                                                                \
  MUSTER_LANES_COMPARED(N, ges, S, >=)                                                                               \
  MUSTER_LANES_COMPARED(N, geu, U, >=)                                                                               \
  MUSTER_LANES_COMPARED(N, gts, S, >)                                                                                \
  MUSTER_LANES_COMPARED(N, gtu, U, >)                                                                                \
  MUSTER_LANES_COMPARED(N, les, S, <=)                                                                               \
  MUSTER_LANES_COMPARED(N, leu, U, <=)                                                                               \
  MUSTER_LANES_COMPARED(N, lts, S, <)                                                                                \
  MUSTER_LANES_COMPARED(N, ltu, U, <)
MUSTER_PACKED(2, short, unsigned short)
MUSTER_PACKED(4, signed char, unsigned char)

// Sums wrap around before they are compared, as in the GPU's instructions.
#define MUSTER_EXTREME(NAME, OP)                                                                                     \
  static inline int __vi##NAME##3_s32(int a, int b, int c) {                                                         \
    int d = a OP b ? a : b;                                                                                          \
    return d OP c ? d : c;                                                                                           \
  }                                                                                                                  \
  static inline unsigned __vi##NAME##3_u32(unsigned a, unsigned b, unsigned c) {                                     \
    unsigned d = a OP b ? a : b;                                                                                     \
    return d OP c ? d : c;                                                                                           \
  }                                                                                                                  \
  static inline int __viadd##NAME##_s32(int a, int b, int c) {                                                       \
    int d = int(unsigned(a) + unsigned(b));                                                                          \
    return d OP c ? d : c;                                                                                           \
  }                                                                                                                  \
  static inline unsigned __viadd##NAME##_u32(unsigned a, unsigned b, unsigned c) {                                   \
    return a + b OP c ? a + b : c;                                                                                   \
  }                                                                                                                  \
  static inline int __viadd##NAME##_s32_relu(int a, int b, int c) {                                                  \
    int d = __viadd##NAME##_s32(a, b, c);                                                                            \
    return d > 0 ? d : 0;                                                                                            \
  }                                                                                                                  \
  static inline int __vi##NAME##_s32_relu(int a, int b) {                                                            \
    int d = a OP b ? a : b;                                                                                          \
    return d > 0 ? d : 0;                                                                                            \
  }                                                                                                                  \
  static inline int __vi##NAME##3_s32_relu(int a, int b, int c) {                                                    \
    int d = __vi##NAME##3_s32(a, b, c);                                                                              \
    return d > 0 ? d : 0;                                                                                            \
  }
MUSTER_EXTREME(max, >)
MUSTER_EXTREME(min, <)
