/* The terms of sched_setattr and sched_getattr: sys/sched.h of some libraries has its own idea of them.
 *
 * Interface: struct attr; ATTR_FIRST bytes are its first form, without the bounds of use.
 */
#ifndef ATTR_H
#define ATTR_H
#include <stddef.h>
#include <stdint.h>

struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t util_min, util_max;
};

enum { ATTR_FIRST = offsetof(struct attr, util_min) };
#endif
