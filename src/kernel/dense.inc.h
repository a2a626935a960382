/* Matrix products on LANES: a batched matrix [n, f] is panels [f][16]. Included by the files lanes_*.c. */

#define DENSE_PANELS 4 /* panels that share a weight while it is in a register */
#if V_REGISTERS == 32
#define DENSE_OUT 6
#define DENSE_VECTORS 4 /* weight gradient: output vectors a tile, times DENSE_OUT inputs */
#else
#define DENSE_OUT 3
#define DENSE_VECTORS 4
#endif

/* y[i] of OT outputs on PT panels: sum over k of w[k * wk + i * wi] * x[k]. Panels are `xp` and `yp` floats apart. */
INLINE void dense_tile(const int OT, const int PT, const float *x, int64_t xp, const float *w, int64_t wk, int64_t wi,
                       int64_t depth, const float *bias, activation act, float *y, int64_t yp) {
  vf a[DENSE_OUT][DENSE_PANELS];
  UNROLL for (int i = 0; i < OT; i++) { UNROLL for (int j = 0; j < PT; j++) a[i][j] = v_set(bias ? bias[i] : 0); }
  for (int64_t k = 0; k < depth; k++) {
    __builtin_prefetch(w + LANES, 0, 2); /* the tile after the next ones will want it, perhaps from afar */
    if (OT > PT) {                       /* hold whichever is fewer in registers: panels or weights */
      vf v[DENSE_PANELS];
      UNROLL for (int j = 0; j < PT; j++) v[j] = v_load(x + j * xp + k * LANES);
      UNROLL for (int i = 0; i < OT; i++) {
        vf c = v_set(w[i * wi]);
        V_KEEP(c);
        UNROLL for (int j = 0; j < PT; j++) a[i][j] += c * v[j];
      }
    } else {
      vf c[DENSE_OUT];
      UNROLL for (int i = 0; i < OT; i++) c[i] = v_set(w[i * wi]);
      UNROLL for (int j = 0; j < PT; j++) {
        vf v = v_load(x + j * xp + k * LANES);
        V_KEEP(v);
        UNROLL for (int i = 0; i < OT; i++) a[i][j] += c[i] * v;
      }
    }
    w += wk;
  }
  const vf floor = conv_floor(act);
  UNROLL for (int i = 0; i < OT; i++) {
    UNROLL for (int j = 0; j < PT; j++) v_store(y + j * yp + i * LANES, v_max(floor, a[i][j]));
  }
  for (int j = 0; j < PT; j++) conv_activate_stored(OT, y + j * yp, act);
}

#define DENSE_CASE(OT, PT)                                         \
  case OT * 8 + PT:                                                \
    dense_tile(OT, PT, x, xp, w, wk, wi, depth, bias, act, y, yp); \
    break;
#define DENSE_CASES(OT) DENSE_CASE(OT, 1) DENSE_CASE(OT, 2) DENSE_CASE(OT, 3) DENSE_CASE(OT, 4)

static __attribute__((noinline)) void dense_any(int out, int panels, const float *x, int64_t xp, const float *w,
                                                int64_t wk, int64_t wi, int64_t depth, const float *bias,
                                                activation act, float *y, int64_t yp) {
  switch (out * 8 + panels) {
    DENSE_CASES(1)
    DENSE_CASES(2)
    DENSE_CASES(3)
#if DENSE_OUT > 3
    DENSE_CASES(4)
    DENSE_CASES(5)
    DENSE_CASES(6)
#endif
  }
}

/* Weight w[k * wk + i * wi] joins input k and output i. */
static void dense_forward(const shoal_tensor *x, const float *w, int64_t wk, int64_t wi, int64_t depth, int64_t outs,
                          const float *bias, activation act, float *y) {
  const int tiles = (int)((outs + DENSE_OUT - 1) / DENSE_OUT);
  const int64_t blocks = lanes_blocks(x), xp = depth * LANES, yp = outs * LANES;
  for (int64_t b = 0; b < blocks; b += DENSE_PANELS) {
    int panels = (int)MIN_OF(blocks - b, (int64_t)DENSE_PANELS);
    for (int t = 0; t < tiles; t++) {
      int64_t first = outs * t / tiles, last = outs * (t + 1) / tiles;
      for (int lane = 0; lane < LANES; lane += VW)
        dense_any((int)(last - first), panels, (const float *)x->data + b * xp + lane, xp, w + first * wi, wk, wi,
                  depth, bias ? bias + first : NULL, act, y + b * yp + first * LANES + lane, yp);
    }
  }
}

/* x, w [in, out], bias; attr 0: the activation. */
shoal_status ISA_NAME(lanes_dense)(const kernel_call *call) {
  const shoal_tensor *w = &call->in[1];
  int64_t in = w->shape.dim[0], out = w->shape.dim[1];
  dense_forward(&call->in[0], w->data, out, 1, in, out, call->in[2].data, (activation)call->attr[0].i,
                call->out[0].data);
  return NULL;
}

/* x w, or with attr 1 x w^T. */
shoal_status ISA_NAME(lanes_matmul)(const kernel_call *call) {
  const shoal_tensor *w = &call->in[1];
  int64_t rows = w->shape.dim[0], columns = w->shape.dim[1];
  if (call->attr[1].i)
    dense_forward(&call->in[0], w->data, 1, columns, columns, rows, NULL, ACT_LINEAR, call->out[0].data);
  else
    dense_forward(&call->in[0], w->data, columns, 1, rows, columns, NULL, ACT_LINEAR, call->out[0].data);
  return NULL;
}

/* Four lanes of a panel [f][16], from `panel` on, to rows `stride` apart. */
INLINE void four_lanes_to_rows(const float *panel, int64_t f, float *rows, int64_t stride) {
  int64_t k = 0;
  for (; k + 4 <= f; k += 4) {
    v_four r[4];
    UNROLL for (int e = 0; e < 4; e++) r[e] = *(const v_four_any *)(panel + (k + e) * LANES);
    v_turn_four(r);
    UNROLL for (int e = 0; e < 4; e++) * (v_four_any *)(rows + e * stride + k) = r[e];
  }
  for (; k < f; k++)
    for (int e = 0; e < 4; e++) rows[e * stride + k] = panel[k * LANES + e];
}

/* The first n images of panels [f][16] to rows [n][stride]. */
static void panels_to_rows(const float *panels, int64_t n, int64_t f, float *rows, int64_t stride) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    four_lanes_to_rows(panels + i / LANES * f * LANES + i % LANES, f, rows + i * stride, stride);
  for (; i < n; i++)
    for (int64_t k = 0; k < f; k++) rows[i * stride + k] = panels[(i / LANES * f + k) * LANES + i % LANES];
}

/* out[k][...] (+)= sum over n of x[k][n] d[n][...], for KT inputs k and VT vectors of outputs, `width` of them real. */
INLINE void dense_grad_tile(const int KT, const int VT, const float *x, int64_t blocks, int64_t xp, const float *d,
                            int64_t stride, float *out, int64_t ld, int64_t width, bool accumulate) {
  vf a[DENSE_OUT][DENSE_VECTORS];
  UNROLL for (int i = 0; i < KT; i++) { UNROLL for (int j = 0; j < VT; j++) a[i][j] = V_ZERO; }
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t n = 0; n < LANES; n++) {
      const float *dn = d + (b * LANES + n) * stride, *xn = x + b * xp + n;
      /* Lines of the result are asked for one by one, so that none is waited for in the end. */
      const int64_t line = b * LANES + n;
      if (line < KT * VT) __builtin_prefetch(out + line / VT * ld + line % VT * VW, 1, 3);
      if (KT > VT) {
        vf e[DENSE_VECTORS];
        UNROLL for (int j = 0; j < VT; j++) e[j] = v_load(dn + j * VW);
        UNROLL for (int i = 0; i < KT; i++) {
          vf c = v_set(xn[i * LANES]);
          V_KEEP(c);
          UNROLL for (int j = 0; j < VT; j++) a[i][j] += c * e[j];
        }
      } else {
        vf c[DENSE_OUT];
        UNROLL for (int i = 0; i < KT; i++) c[i] = v_set(xn[i * LANES]);
        UNROLL for (int j = 0; j < VT; j++) {
          vf e = v_load(dn + j * VW);
          V_KEEP(e);
          UNROLL for (int i = 0; i < KT; i++) a[i][j] += c[i] * e;
        }
      }
    }
  if (width >= VT * VW) {
    UNROLL for (int i = 0; i < KT; i++) {
      UNROLL for (int j = 0; j < VT; j++) {
        float *to = out + i * ld + j * VW;
        v_store(to, accumulate ? v_load(to) + a[i][j] : a[i][j]);
      }
    }
  } else {
    float part[DENSE_OUT * DENSE_VECTORS * VW];
    UNROLL for (int i = 0; i < KT; i++) {
      UNROLL for (int j = 0; j < VT; j++) v_store(part + (i * DENSE_VECTORS + j) * VW, a[i][j]);
    }
    store_part(KT, part, DENSE_VECTORS * VW, out, ld, width, accumulate);
  }
}

#define DENSE_GRAD_CASE(KT, VT)                                                    \
  case KT * 8 + VT:                                                                \
    dense_grad_tile(KT, VT, x, blocks, xp, d, stride, out, ld, width, accumulate); \
    break;
#define DENSE_GRAD_CASES(KT) DENSE_GRAD_CASE(KT, 1) DENSE_GRAD_CASE(KT, 2) DENSE_GRAD_CASE(KT, 3) DENSE_GRAD_CASE(KT, 4)

static __attribute__((noinline)) void dense_grad_any(int ins, int vectors, const float *x, int64_t blocks, int64_t xp,
                                                     const float *d, int64_t stride, float *out, int64_t ld,
                                                     int64_t width, bool accumulate) {
  switch (ins * 8 + vectors) {
    DENSE_GRAD_CASES(1)
    DENSE_GRAD_CASES(2)
    DENSE_GRAD_CASES(3)
#if DENSE_OUT > 3
    DENSE_GRAD_CASES(4)
    DENSE_GRAD_CASES(5)
    DENSE_GRAD_CASES(6)
#endif
  }
}

/* x^T d: [in, out]. Scratch: d as rows. */
shoal_status ISA_NAME(lanes_matmul_sum)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0], *d = &call->in[1];
  const int64_t in = call->out[0].shape.dim[0], out = call->out[0].shape.dim[1], blocks = lanes_blocks(x);
  const int64_t stride = (out + LANES - 1) / LANES * LANES;
  float *rows = call->scratch;
  panels_to_rows(d->data, blocks * LANES, out, rows, stride);
  for (int64_t i = 0; stride > out && i < blocks * LANES; i++) /* vectors reach beyond the last column */
    memset(rows + i * stride + out, 0, (size_t)(stride - out) * sizeof *rows);
  const int64_t vectors = (out + VW - 1) / VW;
  const int v_tiles = (int)((vectors + DENSE_VECTORS - 1) / DENSE_VECTORS);
  const int k_tiles = (int)((in + DENSE_OUT - 1) / DENSE_OUT);
  for (int t = 0; t < v_tiles; t++) {
    int64_t v0 = vectors * t / v_tiles, v1 = vectors * (t + 1) / v_tiles;
    for (int k = 0; k < k_tiles; k++) {
      int64_t k0 = in * k / k_tiles, k1 = in * (k + 1) / k_tiles;
      dense_grad_any((int)(k1 - k0), (int)(v1 - v0), (const float *)x->data + k0 * LANES, blocks, in * LANES,
                     rows + v0 * VW, stride, (float *)call->out[0].data + k0 * out + v0 * VW, out, out - v0 * VW,
                     call->accumulate);
    }
  }
  return NULL;
}

/* Sum over the batch and over all axes but the last. */
shoal_status ISA_NAME(lanes_bias_sum)(const kernel_call *call) {
  const shoal_tensor *d = &call->in[0];
  const int64_t o = call->out[0].shape.dim[0], positions = lanes_features(d) / o, blocks = lanes_blocks(d);
  float *out = call->out[0].data;
  for (int64_t m = 0; m < o; m++) {
    vf sum = V_ZERO;
    for (int64_t q = 0; q < blocks * positions; q++)
      for (int lane = 0; lane < LANES; lane += VW) sum += v_load((const float *)d->data + (q * o + m) * LANES + lane);
    out[m] = v_sum(sum) + (call->accumulate ? out[m] : 0);
  }
  return NULL;
}

shoal_status ISA_NAME(lanes_bias_add)(const kernel_call *call) {
  const shoal_tensor *x = &call->in[0];
  const int64_t o = call->in[1].shape.dim[0], vectors = lanes_blocks(x) * lanes_features(x) / o;
  const float *bias = call->in[1].data;
  for (int64_t q = 0; q < vectors; q++)
    for (int64_t m = 0; m < o; m++)
      for (int lane = 0; lane < LANES; lane += VW) {
        const int64_t at = (q * o + m) * LANES + lane;
        v_store((float *)call->out[0].data + at, v_load((const float *)x->data + at) + v_set(bias[m]));
      }
  return NULL;
}
