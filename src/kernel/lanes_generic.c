/* The LANES kernels for any machine. */
#define ISA generic
#define VW 4
#include "base/mem.h"
#include "kernel/conv_rows.h"
#include "kernel/gemm.h"
#include "kernel/lanes.h"
#include "kernel/lstm.h"
#include "kernel/philox.h"
#include "kernel/rows.h"
#include "kernel/skip.h"
#include "kernel/sparse.h"
#include "kernel/table.h"
#include "kernel/update.h"
#include "kernel/vec.h"
#include "kernel/winograd.h"

#include <string.h>
#include <tgmath.h>

#include "kernel/conv.inc.h"
#include "kernel/dense.inc.h"
#include "kernel/gemm.inc.h"
#include "kernel/conv_rows.inc.h"
#include "kernel/philox.inc.h"
#include "kernel/pointwise.inc.h"
#include "kernel/pool.inc.h"
#include "kernel/rows.inc.h"
#include "kernel/lstm.inc.h"
#include "kernel/skip.inc.h"
#include "kernel/sparse.inc.h"
#include "kernel/table.inc.h"
#include "kernel/update.inc.h"
#include "kernel/wide.inc.h"
#include "kernel/winograd.inc.h"
