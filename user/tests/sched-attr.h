/* The attributes of sched_setattr and sched_getattr, since C libraries differ in whether they have them.
 *
 * Interface: struct attr; its first ATTR_FIRST bytes are its first version, without the bounds of use.
 */
#ifndef SCHED_ATTR_H
#define SCHED_ATTR_H
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
