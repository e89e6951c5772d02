// Mathematical functions that the host's library lacks or names otherwise. Approximate intrinsics use the exact
// function: a result better than the GPU's is still within the tolerance that a task states.
#pragma once

// Macros, because the C library declares functions with some of these names.
#define __expf(...) ::expf(__VA_ARGS__)
#define __exp10f(...) ::exp10f(__VA_ARGS__)
#define __logf(...) ::logf(__VA_ARGS__)
#define __log2f(...) ::log2f(__VA_ARGS__)
#define __log10f(...) ::log10f(__VA_ARGS__)
#define __sinf(...) ::sinf(__VA_ARGS__)
#define __cosf(...) ::cosf(__VA_ARGS__)
#define __tanf(...) ::tanf(__VA_ARGS__)
#define __tanhf(...) ::tanhf(__VA_ARGS__)
#define __powf(...) ::powf(__VA_ARGS__)
#define __sincosf(...) ::sincosf(__VA_ARGS__)

namespace muster {
constexpr double PI = 3.14159265358979323846;
constexpr double ROOT_HALF = 0.70710678118654752440;

// The argument is reduced exactly, so that integers and halves of them give exact results.
static inline double sine_of_pi(double a) {
  double rest = ::fmod(a, 2.0);
  if (rest == ::trunc(rest)) return ::copysign(0.0, a);
  return ::sin(rest * PI);
}
static inline double cosine_of_pi(double a) {
  double rest = ::fabs(::fmod(a, 2.0));
  if (rest == 0.5 || rest == 1.5) return 0.0;
  return ::cos(rest * PI);
}

// Giles, "Approximating the erfinv function" (2010), double precision would need two more polynomials: a first
// guess from his single-precision one, then Newton's method on erf or erfc, whichever has the digits.
static inline double inverse_error(double a, bool complement) {
  double rest = complement ? a : 1.0 - a, other = complement ? 2.0 - a : 1.0 + a;
  if (!(rest >= 0.0 && other >= 0.0)) return NAN;
  if (rest == 0.0) return HUGE_VAL;
  if (other == 0.0) return -HUGE_VAL;
  double x = complement ? 1.0 - a : a, w = -::log(rest * other), guess;
  if (w < 5.0) {
    static const double c[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                               -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    w -= 2.5;
    guess = c[0];
    for (int i = 1; i < 9; ++i) guess = guess * w + c[i];
    guess *= x;
  } else if (w < 16.0) {
    static const double c[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                               -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    w = ::sqrt(w) - 3.0;
    guess = c[0];
    for (int i = 1; i < 9; ++i) guess = guess * w + c[i];
    guess *= x;
  } else {
    // erfc(x) is exp(-x^2) / (x sqrt(pi)) far out.
    double far = -::log((rest < other ? rest : other) * 1.77245385090551602730);
    guess = ::copysign(::sqrt(far - 0.5 * ::log(far)), x);
  }
  constexpr double SLOPE = 1.12837916709551257390; // 2 / sqrt(pi)
  for (int i = 0; i < 4; ++i) {
    double miss = rest < 0.5    ? rest - ::erfc(guess)
                  : other < 0.5 ? ::erfc(-guess) - other
                                : ::erf(guess) - x;
    double step = miss / (SLOPE * ::exp(-guess * guess));
    if (!(::fabs(step) < 1.0)) break;
    // Halley's correction: erf'' = -2 x erf'.
    guess -= step / (1.0 + guess * step);
  }
  return guess;
}

// exp(x^2) erfc(x); beyond the range of both, the continued fraction of Abramowitz and Stegun 7.1.14.
static inline double scaled_complement(double a) {
  if (a < 25.0) return ::exp(a * a) * ::erfc(a);
  double fraction = 0.0;
  for (int k = 30; k > 0; --k) fraction = k / 2.0 / (a + fraction);
  return 1.0 / ((a + fraction) * 1.77245385090551602730);
}
// The power series of the modified Bessel functions (Abramowitz and Stegun 9.6.10): all terms are positive.
static inline double modified_bessel(int order, double a) {
  double quarter = a * a / 4.0, term = order ? a / 2.0 : 1.0, sum = term;
  for (int k = 1; k < 1000 && ::fabs(term) > ::fabs(sum) * 1e-18; ++k) {
    term *= quarter / (double(k) * double(k + order));
    sum += term;
  }
  return sum;
}
static inline double norm(int count, const double* a) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum = ::hypot(sum, a[i]);
  return sum;
}
static inline double norm(int count, const float* a) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum += double(a[i]) * double(a[i]);
  return ::sqrt(sum);
}
}

// Each in double, and in float as the double's result rounded; with the float overloads of C++.
#define MUSTER_FUNCTION(NAME, EXPRESSION)                                                                            \
  static inline double NAME(double a) { return EXPRESSION; }                                                         \
  static inline float NAME##f(float single) { double a = double(single); return float(EXPRESSION); }                 \
  static inline float NAME(float a) { return NAME##f(a); }
MUSTER_FUNCTION(rsqrt, 1.0 / ::sqrt(a))
MUSTER_FUNCTION(rcbrt, 1.0 / ::cbrt(a))
MUSTER_FUNCTION(sinpi, muster::sine_of_pi(a))
MUSTER_FUNCTION(cospi, muster::cosine_of_pi(a))
MUSTER_FUNCTION(normcdf, 0.5 * ::erfc(-a * muster::ROOT_HALF))
MUSTER_FUNCTION(normcdfinv, -muster::inverse_error(2.0 * a, true) / muster::ROOT_HALF)
MUSTER_FUNCTION(erfinv, muster::inverse_error(a, false))
MUSTER_FUNCTION(erfcinv, muster::inverse_error(a, true))
MUSTER_FUNCTION(erfcx, muster::scaled_complement(a))
MUSTER_FUNCTION(cyl_bessel_i0, muster::modified_bessel(0, a))
MUSTER_FUNCTION(cyl_bessel_i1, muster::modified_bessel(1, a))
static inline float exp10(float a) { return ::exp10f(a); }

static inline void sincospi(double a, double* sine, double* cosine) { *sine = sinpi(a); *cosine = cospi(a); }
static inline void sincospif(float a, float* sine, float* cosine) { *sine = sinpif(a); *cosine = cospif(a); }
static inline void sincospi(float a, float* sine, float* cosine) { sincospif(a, sine, cosine); }
static inline void sincos(float a, float* sine, float* cosine) { ::sincosf(a, sine, cosine); }
static inline double norm3d(double a, double b, double c) { double all[] = {a, b, c}; return muster::norm(3, all); }
static inline float norm3df(float a, float b, float c) { float all[] = {a, b, c}; return float(muster::norm(3, all)); }
static inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
static inline float rnorm3df(float a, float b, float c) { float all[] = {a, b, c}; return float(1.0 / muster::norm(3, all)); }
static inline double norm4d(double a, double b, double c, double d) { double all[] = {a, b, c, d}; return muster::norm(4, all); }
static inline float norm4df(float a, float b, float c, float d) { float all[] = {a, b, c, d}; return float(muster::norm(4, all)); }
static inline double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
static inline float rnorm4df(float a, float b, float c, float d) {
  float all[] = {a, b, c, d};
  return float(1.0 / muster::norm(4, all));
}
static inline double norm(int count, const double* a) { return muster::norm(count, a); }
static inline float normf(int count, const float* a) { return float(muster::norm(count, a)); }
static inline double rnorm(int count, const double* a) { return 1.0 / muster::norm(count, a); }
static inline float rnormf(int count, const float* a) { return float(1.0 / muster::norm(count, a)); }
static inline double rhypot(double a, double b) { return 1.0 / ::hypot(a, b); }
static inline float rhypotf(float a, float b) { return float(1.0 / ::hypot(double(a), double(b))); }
static inline float fdividef(float a, float b) { return a / b; }

static inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
static inline long long llmin(long long a, long long b) { return a < b ? a : b; }
static inline long long llmax(long long a, long long b) { return a > b ? a : b; }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }

#define MUSTER_MINMAX(R, A, B)                                                                                       \
  static inline R min(A a, B b) { R x = (R)a, y = (R)b; return x < y ? x : y; }                                      \
  static inline R max(A a, B b) { R x = (R)a, y = (R)b; return x > y ? x : y; }
MUSTER_MINMAX(int, int, int)
MUSTER_MINMAX(unsigned, unsigned, unsigned)
MUSTER_MINMAX(unsigned, int, unsigned)
MUSTER_MINMAX(unsigned, unsigned, int)
MUSTER_MINMAX(long, long, long)
MUSTER_MINMAX(unsigned long, unsigned long, unsigned long)
MUSTER_MINMAX(unsigned long, long, unsigned long)
MUSTER_MINMAX(unsigned long, unsigned long, long)
MUSTER_MINMAX(long long, long long, long long)
MUSTER_MINMAX(unsigned long long, unsigned long long, unsigned long long)
MUSTER_MINMAX(unsigned long long, long long, unsigned long long)
MUSTER_MINMAX(unsigned long long, unsigned long long, long long)
// As fminf and fmaxf: a NaN loses against a number.
static inline float min(float a, float b) { return ::fminf(a, b); }
static inline float max(float a, float b) { return ::fmaxf(a, b); }
static inline double min(double a, double b) { return ::fmin(a, b); }
static inline double max(double a, double b) { return ::fmax(a, b); }
static inline double min(float a, double b) { return ::fmin(a, b); }
static inline double max(float a, double b) { return ::fmax(a, b); }
static inline double min(double a, float b) { return ::fmin(a, b); }
static inline double max(double a, float b) { return ::fmax(a, b); }
