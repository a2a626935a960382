/** @file
 * All of Shoal's public interface. */
#ifndef SHOAL_SHOAL_H
#define SHOAL_SHOAL_H

#include "shoal/cluster.h"
#include "shoal/data.h"
#include "shoal/exchange.h"
#include "shoal/graph.h"
#include "shoal/jobs.h"
#include "shoal/keys.h"
#include "shoal/lab.h"
#include "shoal/launch.h"
#include "shoal/machine.h"
#include "shoal/models.h"
#include "shoal/observe.h"
#include "shoal/options.h"
#include "shoal/pipeline.h"
#include "shoal/placed.h"
#include "shoal/probe.h"
#include "shoal/run.h"
#include "shoal/serve.h"
#include "shoal/session.h"
#include "shoal/simulate.h"
#include "shoal/status.h"
#include "shoal/sweep.h"
#include "shoal/table.h"
#include "shoal/tensor.h"
#include "shoal/text.h"
#include "shoal/train.h"
#include "shoal/version.h"

#endif
