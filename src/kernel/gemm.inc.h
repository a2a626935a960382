/* Products of whole matrices in rows, any transposition: C [m, n] (+)= A B.
 *
 * Both operands are copied into panels that are read from front to back: A in panels of GEMM_ROWS rows, B in panels of
 * GEMM_COLUMNS columns, at most GEMM_DEPTH deep. A tile of C stays in registers while one panel of each passes by. A
 * panel of B and the GEMM_HEIGHT rows of A that it meets lie in the second-level cache and are fetched into the first
 * shortly before their use: the depth could be smaller and a panel of B stay in the first, but then C would be read and
 * written more often, and that is what costs. The order in which a number of C is added up depends on the shapes alone,
 * not on the threads. Included by the files lanes_*.c. */

#if V_REGISTERS == 32
#define GEMM_ROWS 14 /* 28 sums, two vectors of B and one number of A: 31 of 32 registers */
#else
#define GEMM_ROWS 6
#endif
#define GEMM_VECTORS 2
#define GEMM_COLUMNS (GEMM_VECTORS * VW)
#define GEMM_HEIGHT (24 * GEMM_ROWS)
#define GEMM_LINE 16  /* floats of a cache line */
#define GEMM_STRIDE 8 /* steps of depth for each line that is fetched from afar */
#define GEMM_AHEAD 24 /* steps of depth by which a tile fetches its panels from the second-level cache */
_Static_assert(GEMM_ROWS <= GEMM_ROWS_MAX && GEMM_COLUMNS <= GEMM_COLUMNS_MAX, "gemm_scratch counts on it");

/* Element (e, k) of a matrix seen through its transposition: data[e * across + k * along]; k is the depth, e a row of A
 * or a column of B. */
typedef struct {
  const float *data;
  int64_t across, along;
} gemm_operand;

static inline gemm_operand gemm_at(gemm_operand o, int64_t e, int64_t k) {
  return (gemm_operand){o.data + e * o.across + k * o.along, o.across, o.along};
}

/* C of IT rows and VT vectors, `width` columns of them real, (+)= A B. a: [depth][GEMM_ROWS]; b: rows `bs` apart.
 * What comes from afar, C and what will be needed next, is asked for line by line while the tile is computed: all at
 * once, it would keep the tile's own lines waiting. */
INLINE void gemm_tile(const int IT, const int VT, int64_t depth, const float *a, const float *b, int64_t bs,
                      const float *next, float *c, int64_t ld, int64_t width, bool add) {
  vf s[GEMM_ROWS][GEMM_VECTORS];
  UNROLL for (int i = 0; i < IT; i++) { UNROLL for (int j = 0; j < VT; j++) s[i][j] = V_ZERO; }
  for (int64_t k0 = 0, line = 0; k0 < depth; k0 += GEMM_STRIDE, line++) {
    __builtin_prefetch(next + line * GEMM_LINE, 0, 2);
    if (line < IT * VT) __builtin_prefetch(c + line / VT * ld + line % VT * VW, 1, 2);
    for (int64_t k = k0; k < MIN_OF(depth, k0 + GEMM_STRIDE); k++, a += GEMM_ROWS, b += bs) {
      vf y[GEMM_VECTORS];
      __builtin_prefetch(a + GEMM_AHEAD * GEMM_ROWS);
      UNROLL for (int j = 0; j < VT; j++) {
        __builtin_prefetch(b + GEMM_AHEAD * bs + j * VW);
        y[j] = v_load(b + j * VW);
        V_KEEP(y[j]);
      }
      UNROLL for (int i = 0; i < IT; i++) {
        vf x = v_set(a[i]);
        V_KEEP(x);
        UNROLL for (int j = 0; j < VT; j++) s[i][j] += x * y[j];
      }
    }
  }
  if (width == VT * VW) {
    UNROLL for (int i = 0; i < IT; i++) {
      UNROLL for (int j = 0; j < VT; j++) {
        float *to = c + i * ld + j * VW;
        v_store(to, add ? v_load(to) + s[i][j] : s[i][j]);
      }
    }
  } else {
    float part[GEMM_ROWS * GEMM_COLUMNS];
    UNROLL for (int i = 0; i < IT; i++) {
      UNROLL for (int j = 0; j < VT; j++) v_store(part + i * GEMM_COLUMNS + j * VW, s[i][j]);
    }
    store_part(IT, part, GEMM_COLUMNS, c, ld, width, add);
  }
}

#define GEMM_CASE(IT)                                                                 \
  case 2 * IT - 2: gemm_tile(IT, 1, depth, a, b, bs, next, c, ld, width, add); break; \
  case 2 * IT - 1: gemm_tile(IT, 2, depth, a, b, bs, next, c, ld, width, add); break;

static __attribute__((noinline)) void gemm_any(int rows, int64_t depth, const float *a, const float *b, int64_t bs,
                                               const float *next, float *c, int64_t ld, int64_t width, bool add) {
  switch (2 * rows - 1 - (width <= VW)) {
    GEMM_CASE(1)
    GEMM_CASE(2)
    GEMM_CASE(3)
    GEMM_CASE(4)
    GEMM_CASE(5)
    GEMM_CASE(6)
#if GEMM_ROWS > 6
    GEMM_CASE(7)
    GEMM_CASE(8)
    GEMM_CASE(9)
    GEMM_CASE(10)
    GEMM_CASE(11)
    GEMM_CASE(12)
    GEMM_CASE(13)
    GEMM_CASE(14)
#endif
  }
}

/* Four rows of four become columns, `width` apart. */
INLINE void gemm_turn_four(const float *const *from, int64_t k, float *to, int64_t width) {
  v_four r[4];
  UNROLL for (int e = 0; e < 4; e++) r[e] = *(const v_four_any *)(from[e] + k);
  v_turn_four(r);
  UNROLL for (int e = 0; e < 4; e++) * (v_four_any *)(to + e * width) = r[e];
}

/* panel[k][e] = rows[e][k] for e < count. */
static void gemm_pack_rows(const float *const *rows, int64_t count, int64_t depth, int64_t width, float *panel) {
  const int64_t whole = count < 4 ? 0 : depth / 4 * 4;
  for (int64_t e = 0; e < count && whole; e += 4) {
    const int64_t at = MIN_OF(e, count - 4); /* the last four may be partly the ones before */
    for (int64_t k = 0; k < whole; k += 4) gemm_turn_four(rows + at, k, panel + k * width + at, width);
  }
  for (int64_t k = whole; k < depth; k++)
    for (int64_t e = 0; e < count; e++) panel[k * width + e] = rows[e][k];
}

/* Columns of B that are not there are zero; rows of A that are not there are never read. */
static void gemm_clear_rest(int64_t count, int64_t depth, float *panel) {
  if (count < GEMM_COLUMNS)
    for (int64_t k = 0; k < depth; k++)
      memset(panel + k * GEMM_COLUMNS + count, 0, (size_t)(GEMM_COLUMNS - count) * sizeof *panel);
}

/* panel[k][e] = o(e, k) for e < count; o.along is 1. */
static void gemm_pack_turned(gemm_operand o, int64_t count, int64_t depth, int64_t width, float *panel) {
  const float *rows[GEMM_COLUMNS_MAX] = {NULL};
  for (int64_t e = 0; e < count; e++) rows[e] = o.data + e * o.across;
  gemm_pack_rows(rows, count, depth, width, panel);
}

/* The same where o.across is 1. Pieces are copied in a size that the compiler knows: each may run over into the place
 * of the one that follows, and into the next line of the matrix, as long as there are such. */
INLINE void gemm_pack_straight(gemm_operand o, int64_t count, int64_t depth, const int64_t width, float *panel) {
  const int64_t chunk = count == width ? width : (width + 7) / 8 * 8;
  const int64_t before_end = chunk == count ? 0 : MAX_OF((chunk - count + o.along - 1) / MAX_OF(o.along, 1), 1);
  int64_t k = 0;
  if (count == width)
    for (; k < depth; k++) memcpy(panel + k * width, o.data + k * o.along, (size_t)width * sizeof *panel);
  else
    for (; k < depth - before_end; k++)
      memcpy(panel + k * width, o.data + k * o.along, (size_t)((width + 7) / 8 * 8) * sizeof *panel);
  for (; k < depth; k++) memcpy(panel + k * width, o.data + k * o.along, (size_t)count * sizeof *panel);
}

INLINE void gemm_pack(gemm_operand o, int64_t count, int64_t depth, const int64_t width, float *panel) {
  if (o.across == 1)
    gemm_pack_straight(o, count, depth, width, panel);
  else
    gemm_pack_turned(o, count, depth, width, panel);
}
static void gemm_pack_a(gemm_operand o, int64_t count, int64_t depth, float *panel) {
  gemm_pack(o, count, depth, GEMM_ROWS, panel);
}
static void gemm_pack_b(gemm_operand o, int64_t count, int64_t depth, float *panel) {
  gemm_pack(o, count, depth, GEMM_COLUMNS, panel);
  gemm_clear_rest(count, depth, panel);
}

/* ---- B as panels of all depths at once, for products that meet it again and again */

typedef struct {
  float *data;
  int64_t depth, level, columns; /* of B; of a panel, a multiple of four */
} gemm_panels;

static gemm_panels gemm_panels_of(float *data, int64_t depth, int64_t columns) {
  const int64_t levels = (depth + GEMM_DEPTH - 1) / GEMM_DEPTH;
  const int64_t level = levels ? MIN_OF(((depth + levels - 1) / levels + 3) / 4 * 4, (int64_t)GEMM_DEPTH) : 1;
  return (gemm_panels){data, depth, level, columns};
}

static int64_t gemm_panels_wide(const gemm_panels *p) { return (p->columns + GEMM_COLUMNS - 1) / GEMM_COLUMNS; }
static int64_t gemm_panels_count(const gemm_panels *p) {
  return (p->depth + p->level - 1) / p->level * gemm_panels_wide(p);
}
static int64_t gemm_panels_depth(const gemm_panels *p, int64_t k0) { return MIN_OF(p->level, p->depth - k0); }
/* Panel j of the level that begins at k0. */
static float *gemm_panels_at(const gemm_panels *p, int64_t k0, int64_t j) {
  return p->data + (k0 * gemm_panels_wide(p) + j * gemm_panels_depth(p, k0)) * GEMM_COLUMNS;
}
/* Columns of panel j. */
static int64_t gemm_panels_width(const gemm_panels *p, int64_t j) {
  return MIN_OF((int64_t)GEMM_COLUMNS, p->columns - j * GEMM_COLUMNS);
}

/* Panels [first, last) of the matrix b. */
static void gemm_panels_pack(const gemm_panels *p, gemm_operand b, int64_t first, int64_t last) {
  for (int64_t t = first; t < last; t++) {
    const int64_t k0 = t / gemm_panels_wide(p) * p->level, j = t % gemm_panels_wide(p);
    gemm_pack_b(gemm_at(b, j * GEMM_COLUMNS, k0), gemm_panels_width(p, j), gemm_panels_depth(p, k0),
                gemm_panels_at(p, k0, j));
  }
}

/* A tile's rows of C (+)= its panel of A times all panels at level k0. */
static void gemm_panels_multiply(const gemm_panels *p, int64_t rows, const float *a, int64_t k0, float *c, int64_t ld,
                                 bool add) {
  const int64_t depth = gemm_panels_depth(p, k0);
  for (int64_t j = 0; j < gemm_panels_wide(p); j++) {
    const float *b = gemm_panels_at(p, k0, j);
    gemm_any((int)rows, depth, a, b, GEMM_COLUMNS, b + depth * GEMM_COLUMNS, c + j * GEMM_COLUMNS, ld,
             gemm_panels_width(p, j), add);
  }
}

/* ---- whole products */

typedef struct {
  gemm_operand a, b;
  int64_t m, n, k;
  float *c;          /* [m, n] */
  bool add;          /* to what C holds */
  const float *bias; /* [n], what each row of C begins with; or NULL */
  bool straight;     /* B is read where it lies, whole panels of it, since few rows of A would profit from a copy */
  float *pa, *pb;    /* panels of A and B */
  int64_t row, rows, column, columns, level, depth; /* the part under way: where it begins and its size */
  bool fresh;                                       /* B's panels are to be made, too */
  bool by_tiles; /* each tile's panel of A is made right before its use, since B's stay in the second-level cache */
} gemm_work;

static int64_t gemm_row_tiles(const gemm_work *w) { return (w->rows + GEMM_ROWS - 1) / GEMM_ROWS; }
static int64_t gemm_column_tiles(const gemm_work *w) { return (w->columns + GEMM_COLUMNS - 1) / GEMM_COLUMNS; }
/* Row tiles are of equal height. */
static int64_t gemm_row(const gemm_work *w, int64_t tile) { return w->rows * tile / gemm_row_tiles(w); }
static bool gemm_lies_straight(const gemm_work *w, int64_t tile) {
  return w->straight && (tile + 1) * GEMM_COLUMNS <= w->columns;
}

static void gemm_pack_share(void *context, int thread, int threads) {
  const gemm_work *w = context;
  int64_t first, last;
  pool_share(w->by_tiles ? 0 : gemm_row_tiles(w), 1, thread, threads, &first, &last);
  for (int64_t t = first; t < last; t++)
    gemm_pack_a(gemm_at(w->a, w->row + gemm_row(w, t), w->level), gemm_row(w, t + 1) - gemm_row(w, t), w->depth,
                w->pa + t * GEMM_ROWS * w->depth);
  if (!w->fresh) return;
  pool_share(gemm_column_tiles(w), 1, thread, threads, &first, &last);
  for (int64_t t = first; t < last; t++)
    if (!gemm_lies_straight(w, t))
      gemm_pack_b(gemm_at(w->b, w->column + t * GEMM_COLUMNS, w->level),
                  MIN_OF((int64_t)GEMM_COLUMNS, w->columns - t * GEMM_COLUMNS), w->depth,
                  w->pb + t * GEMM_COLUMNS * w->depth);
}

static bool gemm_adds(const gemm_work *w) { return w->add || w->bias || w->level > 0; }

/* Rows of the part under way begin with the bias. */
static void gemm_begin_rows(const gemm_work *w, int64_t first, int64_t last) {
  for (int64_t i = first; w->bias && !w->level && i < last; i++)
    memcpy(w->c + (w->row + i) * w->n + w->column, w->bias + w->column, (size_t)w->columns * sizeof *w->c);
}

/* Tiles [i0, i1) x [j0, j1) of the part under way. */
static void gemm_multiply(const gemm_work *w, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  const int64_t high = GEMM_HEIGHT / GEMM_ROWS;
  for (int64_t block = i0; block < i1; block += high)
    for (int64_t j = j0; j < j1; j++) {
      const bool straight = gemm_lies_straight(w, j);
      const float *b =
          straight ? gemm_at(w->b, w->column + j * GEMM_COLUMNS, w->level).data : w->pb + j * GEMM_COLUMNS * w->depth;
      const float *next = w->pb + (j + 1) * GEMM_COLUMNS * w->depth; /* B's next panel comes while this one is used */
      for (int64_t i = block; i < MIN_OF(i1, block + high); i++)
        gemm_any((int)(gemm_row(w, i + 1) - gemm_row(w, i)), w->depth, w->pa + i * GEMM_ROWS * w->depth, b,
                 straight ? w->b.along : GEMM_COLUMNS, next + (i - block) * (w->depth / GEMM_STRIDE) * GEMM_LINE,
                 w->c + (w->row + gemm_row(w, i)) * w->n + w->column + j * GEMM_COLUMNS, w->n,
                 MIN_OF((int64_t)GEMM_COLUMNS, w->columns - j * GEMM_COLUMNS), gemm_adds(w));
    }
}

/* A thread takes rows or columns, whichever are more. */
static void gemm_multiply_share(void *context, int thread, int threads) {
  const gemm_work *w = context;
  const int64_t high = gemm_row_tiles(w), wide = gemm_column_tiles(w);
  int64_t first, last;
  pool_share(MAX_OF(high, wide), 1, thread, threads, &first, &last);
  if (high >= wide)
    gemm_multiply(w, first, last, 0, wide);
  else
    gemm_multiply(w, 0, high, first, last);
}

/* A thread takes row tiles; the panel of A, which only it reads, never leaves the first-level cache. */
static void gemm_tiles_share(void *context, int thread, int threads) {
  const gemm_work *w = context;
  float a[GEMM_ROWS * GEMM_DEPTH] __attribute__((aligned(64)));
  int64_t first, last;
  pool_share(gemm_row_tiles(w), 1, thread, threads, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t row = w->row + gemm_row(w, i), rows = gemm_row(w, i + 1) - gemm_row(w, i);
    gemm_pack_a(gemm_at(w->a, row, w->level), rows, w->depth, a);
    gemm_begin_rows(w, row - w->row, row - w->row + rows);
    for (int64_t j = 0; j < gemm_column_tiles(w); j++) {
      const float *b = w->pb + j * GEMM_COLUMNS * w->depth;
      gemm_any((int)rows, w->depth, a, b, GEMM_COLUMNS, b + GEMM_COLUMNS * w->depth,
               w->c + row * w->n + w->column + j * GEMM_COLUMNS, w->n,
               MIN_OF((int64_t)GEMM_COLUMNS, w->columns - j * GEMM_COLUMNS), gemm_adds(w));
    }
  }
}

/* B's panels leave room for the rest in the second-level cache, and the row tiles can be shared out evenly. */
static bool gemm_by_tiles(const gemm_work *w, int threads) {
  enum { IN_CACHE = 1 << 18 };
  const int64_t tiles = gemm_row_tiles(w);
  return !w->straight && w->columns * w->depth <= IN_CACHE && (tiles % threads == 0 || tiles >= 8 * threads);
}

/* Panels go to `scratch`, gemm_scratch(m, n, k) bytes. */
static void gemm_run(gemm_work *w, void *scratch, pool *threads) {
  enum {
    WORTH_THREADS_FLOPS = 1 << 20,
    STRAIGHT_COLUMNS = 512 /* wider rows of B would meet in the same places of the second-level cache */
  };
  if (2 * w->m * w->n * w->k < WORTH_THREADS_FLOPS) threads = NULL;
  if (!w->k && !w->add && !w->bias) memset(w->c, 0, (size_t)(w->m * w->n) * sizeof *w->c);
  w->straight = w->b.across == 1 && w->m <= (w->b.along <= STRAIGHT_COLUMNS ? 10 : 2) * GEMM_ROWS;
  w->pa = scratch;
  const int64_t levels = (w->k + GEMM_DEPTH - 1) / GEMM_DEPTH, depth = levels ? (w->k + levels - 1) / levels : 1;
  w->pb = w->pa + gemm_panel_floats(w->m, w->k);
  for (w->column = 0; w->column < w->n; w->column += GEMM_SPAN)
    for (w->level = 0; w->level < w->k; w->level += depth)
      for (w->row = 0; w->row < w->m; w->row += GEMM_SPAN) {
        w->columns = MIN_OF(w->n - w->column, (int64_t)GEMM_SPAN);
        w->depth = MIN_OF(w->k - w->level, depth);
        w->rows = MIN_OF(w->m - w->row, (int64_t)GEMM_SPAN);
        w->fresh = w->row == 0;
        w->by_tiles = gemm_by_tiles(w, pool_threads(threads));
        if (!w->by_tiles) gemm_begin_rows(w, 0, w->rows);
        pool_run(threads, gemm_pack_share, w);
        pool_run(threads, w->by_tiles ? gemm_tiles_share : gemm_multiply_share, w);
      }
}

/* a, b; attributes: transpose_a, transpose_b. */
shoal_status ISA_NAME(rows_matmul)(const kernel_call *call) {
  const shoal_tensor *a = &call->in[0], *b = &call->in[1];
  const bool ta = call->attr[0].i, tb = call->attr[1].i;
  const int64_t lda = a->shape.dim[1], ldb = b->shape.dim[1];
  gemm_work w = {.a = {a->data, ta ? 1 : lda, ta ? lda : 1},
                 .b = {b->data, tb ? ldb : 1, tb ? 1 : ldb},
                 .m = call->out[0].shape.dim[0],
                 .n = call->out[0].shape.dim[1],
                 .k = ta ? a->shape.dim[0] : a->shape.dim[1],
                 .c = call->out[0].data,
                 .add = call->accumulate};
  gemm_run(&w, call->scratch, call->threads);
  return NULL;
}
