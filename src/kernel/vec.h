/* Vectors of floats for kernels that are written once and compiled for each instruction set.
 *
 * The including file defines ISA (a suffix: generic, avx2, avx512, neon), VW (floats in a vector: 4, 8, 16) and, for
 * Advanced SIMD, NEON; it is compiled with the matching machine flags. Arithmetic is GNU vector arithmetic; a * b + c becomes a fused multiply-add
 * where the machine has one. */
#ifndef SHOAL_KERNEL_VEC_H
#define SHOAL_KERNEL_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if VW > 4
#include <immintrin.h>
#elif defined(NEON)
#include <arm_neon.h>
#endif

/* Registers for vectors: how large tiles of sums may be. */
#if VW == 16 || defined(NEON)
#define V_REGISTERS 32
#else
#define V_REGISTERS 16
#endif

#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#define ISA_NAME(name) ISA_JOIN(name, ISA)

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("GCC unroll 32")

typedef float vf __attribute__((vector_size(VW * 4)));
typedef int32_t vi __attribute__((vector_size(VW * 4)));
#define V_ZERO ((vf){0})
typedef float vf_any __attribute__((vector_size(VW * 4), aligned(4), may_alias)); /* at any address */

INLINE vf v_load(const float *p) { return *(const vf_any *)p; }
INLINE void v_store(float *p, vf x) { *(vf_any *)p = x; }

#if VW == 16
INLINE vf v_set(float x) { return (vf)_mm512_set1_ps(x); }
/* The larger; `b` where either is NaN. */
INLINE vf v_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf v_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE float v_sum(vf x) { return _mm512_reduce_add_ps((__m512)x); }
INLINE float v_most(vf x) { return _mm512_reduce_max_ps((__m512)x); }
INLINE vf v_round(vf x) { return (vf)_mm512_roundscale_ps((__m512)x, 8); }
INLINE vi v_to_int(vf x) { return (vi)_mm512_cvtps_epi32((__m512)x); }
/* 1 / x to the last place or next to it, for finite x: a division takes four times as long. */
INLINE vf v_reciprocal(vf x) {
  const vf r = (vf)_mm512_rcp14_ps((__m512)x);
  return r * (v_set(2.0f) - x * r);
}
INLINE vf v_from_u8(const uint8_t *p) {
  return (vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* x where the byte is j, else 0. */
INLINE vf v_where_byte(vf x, const uint8_t *p, int j) {
  __mmask16 m = _mm_cmpeq_epi8_mask(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8((char)j));
  return (vf)_mm512_maskz_mov_ps(m, (__m512)x);
}
/* x where y > 0, else 0. */
INLINE vf v_where_positive(vf x, vf y) {
  return (vf)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)y, _mm512_setzero_ps(), _CMP_GT_OQ), (__m512)x);
}
/* Which of four is the largest, the first of equals, as bytes; and it. */
INLINE vf v_best_of_4(vf a, vf b, vf c, vf d, uint8_t *which) {
  __m512 m = (__m512)a;
  __m512i i = _mm512_setzero_si512();
  __mmask16 k = _mm512_cmp_ps_mask((__m512)b, m, _CMP_GT_OQ);
  m = _mm512_mask_mov_ps(m, k, (__m512)b);
  i = _mm512_mask_mov_epi32(i, k, _mm512_set1_epi32(1));
  k = _mm512_cmp_ps_mask((__m512)c, m, _CMP_GT_OQ);
  m = _mm512_mask_mov_ps(m, k, (__m512)c);
  i = _mm512_mask_mov_epi32(i, k, _mm512_set1_epi32(2));
  k = _mm512_cmp_ps_mask((__m512)d, m, _CMP_GT_OQ);
  m = _mm512_mask_mov_ps(m, k, (__m512)d);
  i = _mm512_mask_mov_epi32(i, k, _mm512_set1_epi32(3));
  _mm_storeu_si128((__m128i *)which, _mm512_cvtepi32_epi8(i));
  return (vf)m;
}
#elif VW == 8
INLINE vf v_set(float x) { return (vf)_mm256_set1_ps(x); }
INLINE vf v_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf v_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE float v_sum(vf x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
INLINE float v_most(vf x) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
INLINE vf v_round(vf x) { return (vf)_mm256_round_ps((__m256)x, 8); }
INLINE vi v_to_int(vf x) { return (vi)_mm256_cvtps_epi32((__m256)x); }
INLINE vf v_from_u8(const uint8_t *p) {
  return (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE vf v_where_byte(vf x, const uint8_t *p, int j) {
  __m256i q = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
  return (vf)_mm256_and_ps((__m256)x, _mm256_castsi256_ps(_mm256_cmpeq_epi32(q, _mm256_set1_epi32(j))));
}
INLINE vf v_where_positive(vf x, vf y) {
  return (vf)_mm256_and_ps((__m256)x, _mm256_cmp_ps((__m256)y, _mm256_setzero_ps(), _CMP_GT_OQ));
}
INLINE vf v_best_of_4(vf a, vf b, vf c, vf d, uint8_t *which) {
  __m256 m = (__m256)a, i = _mm256_setzero_ps(), k;
  k = _mm256_cmp_ps((__m256)b, m, _CMP_GT_OQ);
  m = _mm256_blendv_ps(m, (__m256)b, k);
  i = _mm256_blendv_ps(i, _mm256_castsi256_ps(_mm256_set1_epi32(1)), k);
  k = _mm256_cmp_ps((__m256)c, m, _CMP_GT_OQ);
  m = _mm256_blendv_ps(m, (__m256)c, k);
  i = _mm256_blendv_ps(i, _mm256_castsi256_ps(_mm256_set1_epi32(2)), k);
  k = _mm256_cmp_ps((__m256)d, m, _CMP_GT_OQ);
  m = _mm256_blendv_ps(m, (__m256)d, k);
  i = _mm256_blendv_ps(i, _mm256_castsi256_ps(_mm256_set1_epi32(3)), k);
  __m256i w = _mm256_castps_si256(i);
  __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  _mm_storel_epi64((__m128i *)which, _mm_packus_epi16(h, h));
  return (vf)m;
}
#elif defined(NEON)
INLINE vf v_set(float x) { return (vf)vdupq_n_f32(x); }
/* Not the instructions fmax and fmin, which make NaN of NaN and a number. */
INLINE vf v_max(vf a, vf b) {
  return (vf)vbslq_f32(vcgtq_f32((float32x4_t)a, (float32x4_t)b), (float32x4_t)a, (float32x4_t)b);
}
INLINE vf v_min(vf a, vf b) {
  return (vf)vbslq_f32(vcltq_f32((float32x4_t)a, (float32x4_t)b), (float32x4_t)a, (float32x4_t)b);
}
INLINE float v_sum(vf x) { return vaddvq_f32((float32x4_t)x); }
INLINE float v_most(vf x) { return vmaxvq_f32((float32x4_t)x); }
INLINE vf v_round(vf x) { return (vf)vrndnq_f32((float32x4_t)x); }
INLINE vi v_to_int(vf x) { return (vi)vcvtnq_s32_f32((float32x4_t)x); }
INLINE uint32x4_t v_bytes(const uint8_t *p) {
  uint32_t four;
  memcpy(&four, p, sizeof four);
  return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}
INLINE vf v_from_u8(const uint8_t *p) { return (vf)vcvtq_f32_u32(v_bytes(p)); }
INLINE vf v_where_byte(vf x, const uint8_t *p, int j) {
  return (vf)((vi)x & (vi)vceqq_u32(v_bytes(p), vdupq_n_u32((uint32_t)j)));
}
INLINE vf v_where_positive(vf x, vf y) { return (vf)((vi)x & (vi)vcgtzq_f32((float32x4_t)y)); }
INLINE vf v_best_of_4(vf a, vf b, vf c, vf d, uint8_t *which) {
  const float32x4_t others[3] = {(float32x4_t)b, (float32x4_t)c, (float32x4_t)d};
  float32x4_t most = (float32x4_t)a;
  uint32x4_t i = vdupq_n_u32(0);
  UNROLL for (uint32_t k = 0; k < 3; k++) {
    const uint32x4_t more = vcgtq_f32(others[k], most);
    most = vbslq_f32(more, others[k], most);
    i = vbslq_u32(more, vdupq_n_u32(k + 1), i);
  }
  const uint16x4_t halves = vmovn_u32(i);
  const uint8x8_t bytes = vmovn_u16(vcombine_u16(halves, halves));
  vst1_lane_u32((uint32_t *)(void *)which, vreinterpret_u32_u8(bytes), 0);
  return (vf)most;
}
#else
/* a where the mask has ones, b where it has zeros. */
INLINE vf v_choose(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }
INLINE vf v_set(float x) { return x - V_ZERO; }
INLINE vf v_max(vf a, vf b) { return v_choose(a > b, a, b); }
INLINE vf v_min(vf a, vf b) { return v_choose(a < b, a, b); }
INLINE float v_sum(vf x) {
  float s = 0;
  for (int i = 0; i < VW; i++) s += x[i];
  return s;
}
INLINE float v_most(vf x) {
  float s = x[0];
  for (int i = 1; i < VW; i++) s = x[i] > s ? x[i] : s;
  return s;
}
INLINE vi v_to_int(vf x) { /* to the nearest */
  return __builtin_convertvector(x + v_choose(x < V_ZERO, v_set(-0.5f), v_set(0.5f)), vi);
}
INLINE vf v_round(vf x) { return __builtin_convertvector(v_to_int(x), vf); }
INLINE vf v_from_u8(const uint8_t *p) {
  vf r;
  for (int i = 0; i < VW; i++) r[i] = p[i];
  return r;
}
INLINE vf v_where_byte(vf x, const uint8_t *p, int j) {
  for (int i = 0; i < VW; i++) x[i] = p[i] == j ? x[i] : 0;
  return x;
}
INLINE vf v_where_positive(vf x, vf y) { return (vf)((vi)x & (y > V_ZERO)); }
INLINE vf v_best_of_4(vf a, vf b, vf c, vf d, uint8_t *which) {
  for (int i = 0; i < VW; i++) {
    uint8_t w = 0;
    if (b[i] > a[i]) a[i] = b[i], w = 1;
    if (c[i] > a[i]) a[i] = c[i], w = 2;
    if (d[i] > a[i]) a[i] = d[i], w = 3;
    which[i] = w;
  }
  return a;
}
#endif

/* To an address that is a multiple of the vector's size, past the caches where the machine can: see v_fence. */
INLINE void v_store_past(float *p, vf x) {
#if VW == 16
  _mm512_stream_ps(p, (__m512)x);
#elif VW == 8
  _mm256_stream_ps(p, (__m256)x);
#else
  v_store(p, x);
#endif
}
/* What was stored past the caches is seen by other threads before anything that is stored from now on. */
INLINE void v_fence(void) {
#if VW > 4
  _mm_sfence();
#endif
}

#if VW < 16
INLINE vf v_reciprocal(vf x) { return v_set(1.0f) / x; }
#endif

/* A vector that is used several times: in a register, not loaded again for each use, as gcc would have it. */
#if VW > 4
#define V_KEEP(x) __asm__("" : "+v"(x))
#elif defined(NEON)
#define V_KEEP(x) __asm__("" : "+w"(x))
#else
#define V_KEEP(x) (void)(x)
#endif

/* NaN stays NaN. */
INLINE vf v_relu(vf x) { return v_max(V_ZERO, x); }

/* e^x to about 2 units in the last place, for x in [-87, 88]; outside it saturates. NaN stays NaN. Range reduction by
 * ln 2 in two parts, then a polynomial of degree 6 whose coefficients are the minimax ones known from Cephes. */
INLINE vf v_exp(vf x) {
  x = v_min(v_set(88.0f), v_max(v_set(-87.0f), x));
  vf n = v_round(x * v_set(1.44269504f));
  vf r = x - n * v_set(0.693359375f);
  r = r - n * v_set(-2.12194440e-4f);
  vf p = v_set(1.9875691500e-4f);
  p = p * r + v_set(1.3981999507e-3f);
  p = p * r + v_set(8.3334519073e-3f);
  p = p * r + v_set(4.1665795894e-2f);
  p = p * r + v_set(1.6666665459e-1f);
  p = p * r + v_set(5.0000001201e-1f);
  p = p * (r * r) + r + v_set(1.0f);
  return p * (vf)((v_to_int(n) + 127) << 23);
}

/* 1 - 2 / (e^2x + 1), but by the odd Taylor terms near 0, where that difference would lose digits. */
INLINE vf v_tanh(vf x) {
  vf c = v_min(v_set(9.0f), v_max(v_set(-9.0f), x));
  vf t = v_set(1.0f) - v_set(2.0f) * v_reciprocal(v_exp(c + c) + v_set(1.0f));
  vf s = c * c;
  vf small = c + c * s * (v_set(-0.33333334f) + s * (v_set(0.13333334f) + s * v_set(-0.053968254f)));
  vi near = s < v_set(0.04f);
  return (vf)(((vi)small & near) | ((vi)t & ~near));
}

INLINE vf v_sigmoid(vf x) { return v_reciprocal(v_set(1.0f) + v_exp(-x)); }

typedef float v_four __attribute__((vector_size(16)));
typedef float v_four_any __attribute__((vector_size(16), aligned(4), may_alias));

/* Rows of four become columns. */
INLINE void v_turn_four(v_four r[4]) {
  const v_four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const v_four c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
  r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
  r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* The edge of a matrix, where a tile of sums is wider than what is left: to[i] (+)= the first `width` of part[i]. */
static __attribute__((noinline, unused)) void store_part(int rows, const float *part, int64_t stride, float *to,
                                                         int64_t ld, int64_t width, bool add) {
  for (int i = 0; i < rows; i++)
    for (int64_t e = 0; e < width; e++) to[i * ld + e] = part[i * stride + e] + (add ? to[i * ld + e] : 0);
}

#endif
