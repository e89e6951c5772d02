// What the two types of 16 bits share: arithmetic in a wider type, rounded once.
#pragma once

namespace muster {
template <class T> struct Narrow;
template <class T> static inline unsigned short pattern_of(const T& a) { return Narrow<T>::pattern(a); }
template <class T> static inline float value_of(const T& a) { return Narrow<T>::Format::to_float(pattern_of(a)); }

template <class T> static inline T narrow_sum(const T& a, const T& b) {
  float x = value_of(a), y = value_of(b), sum = rounded(x + y);
  if (Narrow<T>::Format::needs_double(sum)) return Narrow<T>::of(double(x) + double(y), Round::nearest);
  return Narrow<T>::of(sum);
}
template <class T> static inline T narrow_product(const T& a, const T& b) {
  float x = value_of(a), y = value_of(b), product = rounded(x * y);
  if (Narrow<T>::Format::needs_double(product)) return Narrow<T>::of(double(x) * double(y), Round::nearest);
  return Narrow<T>::of(product);
}
template <class T> static inline T narrow_quotient(const T& a, const T& b) {
  float x = value_of(a), y = value_of(b), quotient = rounded(x / y);
  if (Narrow<T>::Format::needs_double(quotient)) return Narrow<T>::of(double(x) / double(y), Round::nearest);
  return Narrow<T>::of(quotient);
}
// The product is exact in double.
template <class T> static inline T narrow_fma(const T& a, const T& b, const T& c) {
  double product = double(value_of(a)) * double(value_of(b)), addend = double(value_of(c));
  return Narrow<T>::of(sum_to_odd(product, addend), Round::nearest);
}
template <class T> static inline T narrow_saturated(const T& a) {
  float value = value_of(a);
  return value > 1.0f ? Narrow<T>::of(1.0f) : value > 0.0f ? a : Narrow<T>::of(0.0f);
}
template <class T> static inline T narrow_relu(const T& a) {
  return value_of(a) <= 0.0f ? Narrow<T>::of(0.0f) : a;
}
// IEEE 754-2019 maximumNumber: a NaN loses, and +0 is greater than -0.
template <class T> static inline T narrow_max(const T& a, const T& b) {
  float x = value_of(a), y = value_of(b);
  if (x != x && y != y) return Narrow<T>::of_pattern(0x7fff);
  if (x != x) return b;
  if (y != y) return a;
  return x > y || (x == y && !(pattern_of(a) & 0x8000u)) ? a : b;
}
template <class T> static inline T narrow_min(const T& a, const T& b) {
  float x = value_of(a), y = value_of(b);
  if (x != x && y != y) return Narrow<T>::of_pattern(0x7fff);
  if (x != x) return b;
  if (y != y) return a;
  return x < y || (x == y && (pattern_of(a) & 0x8000u)) ? a : b;
}
template <class T> static inline bool is_nan(const T& a) { return value_of(a) != value_of(a); }
template <class T> static inline bool any_nan(const T& a, const T& b) { return is_nan(a) || is_nan(b); }
}
