// One type of 16 bits and its pair, with the conversions and operators of CUDA. Included once for each format, with
// NARROW, NARROW2 (the types), NARROW_RAW, NARROW2_RAW (their bits) and NARROW_FORMAT defined; so without a guard.

struct NARROW_RAW { unsigned short x; };
struct __attribute__((aligned(4))) NARROW2_RAW { unsigned short x, y; };

struct __attribute__((aligned(2))) NARROW {
 protected:
  unsigned short __x;

 public:
  NARROW() = default;
  constexpr NARROW(const NARROW_RAW& raw) : __x(raw.x) {}
  NARROW& operator=(const NARROW_RAW& raw) { __x = raw.x; return *this; }
  operator NARROW_RAW() const { return NARROW_RAW{__x}; }
  operator NARROW_RAW() const volatile { return NARROW_RAW{__x}; }

#define NARROW_FROM(T, VALUE)                                                                                        \
  NARROW(T value) : __x(muster::NARROW_FORMAT::VALUE) {}                                                             \
  NARROW& operator=(T value) { __x = muster::NARROW_FORMAT::VALUE; return *this; }
#ifndef NARROW_NO_CONVERSIONS
  NARROW_FROM(float, from_float(value))
  NARROW_FROM(double, from_double(value, muster::Round::nearest))
  NARROW_FROM(short, from_float(float(value)))
  NARROW_FROM(unsigned short, from_float(float(value)))
  NARROW_FROM(int, from_double(double(value), muster::Round::nearest))
  NARROW_FROM(unsigned int, from_double(double(value), muster::Round::nearest))
  NARROW_FROM(long, from_double(muster::wide_to_odd(value), muster::Round::nearest))
  NARROW_FROM(unsigned long, from_double(muster::wide_to_odd(value), muster::Round::nearest))
  NARROW_FROM(long long, from_double(muster::wide_to_odd(value), muster::Round::nearest))
  NARROW_FROM(unsigned long long, from_double(muster::wide_to_odd(value), muster::Round::nearest))
  operator float() const { return muster::NARROW_FORMAT::to_float(__x); }
  // Towards zero, as a cast.
#define NARROW_TO(T) operator T() const { return muster::saturated<T>(::trunc(muster::NARROW_FORMAT::to_float(__x))); }
  NARROW_TO(char)
  NARROW_TO(signed char)
  NARROW_TO(unsigned char)
  NARROW_TO(short)
  NARROW_TO(unsigned short)
  NARROW_TO(int)
  NARROW_TO(unsigned int)
  NARROW_TO(long)
  NARROW_TO(unsigned long)
  NARROW_TO(long long)
  NARROW_TO(unsigned long long)
#undef NARROW_TO
  operator bool() const { return (__x & 0x7fffu) != 0; }
#else
  explicit NARROW(float value) : __x(muster::NARROW_FORMAT::from_float(value)) {}
  explicit NARROW(double value) : __x(muster::NARROW_FORMAT::from_double(value, muster::Round::nearest)) {}
  explicit operator float() const { return muster::NARROW_FORMAT::to_float(__x); }
#endif
#undef NARROW_FROM
};

struct __attribute__((aligned(4))) NARROW2 {
  NARROW x, y;
  NARROW2() = default;
  NARROW2(const NARROW& a, const NARROW& b) : x(a), y(b) {}
  NARROW2(const NARROW2_RAW& raw) : x(NARROW_RAW{raw.x}), y(NARROW_RAW{raw.y}) {}
  NARROW2& operator=(const NARROW2_RAW& raw) { x = NARROW_RAW{raw.x}; y = NARROW_RAW{raw.y}; return *this; }
  operator NARROW2_RAW() const { return NARROW2_RAW{NARROW_RAW(x).x, NARROW_RAW(y).x}; }
};

namespace muster {
template <> struct Narrow<NARROW> {
  using Pair = NARROW2;
  using Format = NARROW_FORMAT;
  static inline unsigned short pattern(const NARROW& a) { return NARROW_RAW(a).x; }
  static inline NARROW of_pattern(unsigned short pattern) { return NARROW(NARROW_RAW{pattern}); }
  static inline NARROW of(float value) { return of_pattern(NARROW_FORMAT::from_float(value)); }
  static inline NARROW of(double value, Round round) { return of_pattern(NARROW_FORMAT::from_double(value, round)); }
};
}

#include "muster_narrow_scalar.h"
#include "muster_narrow_pair.h"

// For the next format.
#undef NARROW
#undef NARROW2
#undef NARROW_RAW
#undef NARROW2_RAW
#undef NARROW_FORMAT
#undef NARROW_NO_CONVERSIONS
#undef NARROW_NO_OPERATORS
