/** @file
 * A cluster of hosts on one machine, with links as slow as those of a real one: what `shoal lab` does.
 *
 *     shoal_lab *lab;
 *     shoal_lab_create(&(shoal_lab_options){.hosts = 5, .rate = "1.8gbit", .delay = "100us"}, &lab);
 *     shoal_lab_launch(lab, &job, &(shoal_launch_options){0}, &exit_status);
 *     shoal_lab_destroy(lab);
 *
 * Each host is a network namespace with one interface, eth0, joined with the others by a bridge. Linux, iproute2 and
 * CAP_NET_ADMIN (root) are needed. Namespaces of a process that was killed are removed by the next lab. */
#ifndef SHOAL_LAB_H
#define SHOAL_LAB_H

#include "shoal/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Hosts and their links. */
typedef struct {
  size_t size;       /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int hosts;         /**< 1 to 64 */
  const char *rate;  /**< of each link, each way, as tc writes it: "1.8gbit", "100mbit"; NULL: as fast as it goes */
  const char *delay; /**< from one host to another, one way: "100us", "1ms"; NULL: none added */
} shoal_lab_options;

/** A lab: network namespaces, which end with it. One thread uses it. */
typedef struct shoal_lab shoal_lab;

/** Sets it up. SHOAL_ERR_ARGUMENT: options that make no sense. SHOAL_ERR_SYSTEM: namespaces, or what shapes the links,
 * are not permitted or not there; the message says which. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_lab_create(const shoal_lab_options *options, shoal_lab **out);
/** Removes it. NULL is fine. */
SHOAL_API void shoal_lab_destroy(shoal_lab *lab);
/** The name of the i-th host's network namespace, as `ip netns exec` takes it, i from 0; NULL: there is no such host. */
SHOAL_API const char *shoal_lab_host(const shoal_lab *lab, int i);
/** shoal_launch on the hosts of the lab. Of `options`, `hosts`, `interface` and `namespaces` are the lab's own; where
 * workers and servers together are as many as the hosts, each has one to itself; otherwise workers are spread evenly
 * and servers go round the hosts. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_lab_launch(const shoal_lab *lab, const shoal_job *job,
                                                      const shoal_launch_options *options, int *exit_status);

#ifdef __cplusplus
}
#endif
#endif
