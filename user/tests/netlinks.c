/* Checks netlink as Linux has it: interfaces, addresses, routes and sockets, as programs ask for them; and
 * /proc/net/unix. Passes on Linux and must pass here.
 *
 * Interface: netlinks; TAP on standard output.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tap.h"

static char reply[1 << 16];

static int netlink(int type, int protocol) { return socket(AF_NETLINK, type, protocol); }

// Sends a message of `type` with `length` bytes of body.
static int ask(int fd, int type, int flags, const void *body, size_t length)
{
    struct {
        struct nlmsghdr head;
        char body[512];
    } message = {
        .head = {
            .nlmsg_len = NLMSG_LENGTH(length), .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = 77}};
    memcpy(message.body, body, length);
    return send(fd, &message, message.head.nlmsg_len, 0);
}

// The number in an answer that is an error or an acknowledgement; 1 if it is something else, 2 if there is
// none.
static int answer(int fd)
{
    ssize_t got = recv(fd, reply, sizeof reply, MSG_DONTWAIT);
    if (got < 0)
        return 2;
    struct nlmsghdr *head = (struct nlmsghdr *)reply;
    if (head->nlmsg_type != NLMSG_ERROR || head->nlmsg_seq != 77)
        return 1;
    return ((struct nlmsgerr *)NLMSG_DATA(head))->error;
}

static int asked(int fd, int type, int flags, const void *body, size_t length)
{
    if (ask(fd, type, NLM_F_REQUEST | flags, body, length) < 0)
        return -errno;
    return answer(fd);
}

// Calls `each` with every message of a dump; 0, or the error that came instead, or 1 if it has no end.
static int dump(int fd, int type, const void *body, size_t length, void (*each)(struct nlmsghdr *))
{
    if (ask(fd, type, NLM_F_REQUEST | NLM_F_DUMP, body, length) < 0)
        return -errno;
    for (;;) {
        ssize_t got = recv(fd, reply, sizeof reply, MSG_DONTWAIT);
        if (got <= 0)
            return 1;
        int left = got;
        for (struct nlmsghdr *head = (struct nlmsghdr *)reply; NLMSG_OK(head, left);
             head = NLMSG_NEXT(head, left)) {
            if (head->nlmsg_type == NLMSG_DONE)
                return 0;
            if (head->nlmsg_type == NLMSG_ERROR)
                return ((struct nlmsgerr *)NLMSG_DATA(head))->error;
            if (head->nlmsg_flags & NLM_F_MULTI && head->nlmsg_seq == 77)
                each(head);
        }
    }
}

static void ends(void)
{
    check(netlink(SOCK_STREAM, NETLINK_ROUTE) < 0 && errno == ESOCKTNOSUPPORT,
          "a stream is no netlink socket");
    check(netlink(SOCK_RAW, 31) < 0 && errno == EPROTONOSUPPORT, "a protocol that there is not");
    check(netlink(SOCK_RAW, -1) < 0 && errno == EPROTONOSUPPORT, "a protocol below 0");
    int pair[2];
    check(socketpair(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, pair) < 0 && errno == EOPNOTSUPP, "no pairs");
    int fd = netlink(SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    check(fd >= 0, "a socket");
    int value = 0;
    socklen_t length = sizeof value;
    check(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && value == SOCK_RAW, "its type");
    check(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &length) == 0 && value == AF_NETLINK, "its domain");
    check(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &length) == 0 && value == NETLINK_ROUTE,
          "its protocol");
    check(listen(fd, 1) < 0 && errno == EOPNOTSUPP, "it does not listen");
    check(accept(fd, 0, 0) < 0 && errno == EOPNOTSUPP, "nor accept");
    check(shutdown(fd, SHUT_WR) < 0 && errno == EOPNOTSUPP, "nor is it shut down");

    struct sockaddr_nl name = {0};
    length = sizeof name;
    check(getsockname(fd, (void *)&name, &length) == 0 && length == sizeof name &&
              name.nl_family == AF_NETLINK && name.nl_pid == 0,
          "without a number at first");
    length = sizeof name;
    name.nl_pid = 9;
    check(getpeername(fd, (void *)&name, &length) == 0 && length == sizeof name && name.nl_pid == 0,
          "the kernel is the peer");
    struct sockaddr_nl wanted = {.nl_family = AF_NETLINK};
    check(bind(fd, (void *)&wanted, 4) < 0 && errno == EINVAL, "a short address");
    wanted.nl_family = AF_UNIX;
    check(bind(fd, (void *)&wanted, sizeof wanted) < 0 && errno == EINVAL, "an address of another family");
    wanted.nl_family = AF_NETLINK;
    check(bind(fd, (void *)&wanted, sizeof wanted) == 0, "bind");
    length = sizeof name;
    check(getsockname(fd, (void *)&name, &length) == 0 && name.nl_pid == (unsigned)getpid(),
          "the process's number");
    wanted.nl_pid = 12345;
    check(bind(fd, (void *)&wanted, sizeof wanted) < 0 && errno == EINVAL, "not another number later");
    wanted.nl_pid = getpid();
    check(bind(fd, (void *)&wanted, sizeof wanted) == 0, "the same once more");
    int second = netlink(SOCK_DGRAM, NETLINK_ROUTE);
    check(bind(second, (void *)&wanted, sizeof wanted) < 0 && errno == EADDRINUSE,
          "a number is one socket's");
    wanted.nl_pid = 0;
    check(bind(second, (void *)&wanted, sizeof wanted) == 0, "another is found");
    length = sizeof name;
    check(getsockname(second, (void *)&name, &length) == 0 && name.nl_pid != 0 &&
              name.nl_pid != (unsigned)getpid(),
          "which no process has");
    int other = netlink(SOCK_DGRAM, NETLINK_SOCK_DIAG);
    wanted.nl_pid = getpid();
    check(bind(other, (void *)&wanted, sizeof wanted) == 0, "protocols have their own numbers");
    close(other);
    close(second);
    close(fd);
    fd = netlink(SOCK_RAW, NETLINK_ROUTE);
    check(bind(fd, (void *)&wanted, sizeof wanted) == 0, "a number is free again");
    close(fd);
    fd = netlink(SOCK_RAW, NETLINK_ROUTE);
    wanted.nl_pid = 0;
    wanted.nl_groups = RTMGRP_LINK;
    check(bind(fd, (void *)&wanted, sizeof wanted) == 0, "with a group");
    length = sizeof name;
    check(getsockname(fd, (void *)&name, &length) == 0 && name.nl_groups == RTMGRP_LINK, "which it says");
    value = RTNLGRP_NEIGH;
    check(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &value, sizeof value) == 0, "another group");
    check(getsockname(fd, (void *)&name, &length) == 0 && name.nl_groups == (RTMGRP_LINK | RTMGRP_NEIGH),
          "both");
    check(setsockopt(fd, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &value, sizeof value) == 0, "no more");
    check(getsockname(fd, (void *)&name, &length) == 0 && name.nl_groups == RTMGRP_LINK, "the first alone");
    value = 100000;
    check(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &value, sizeof value) < 0 && errno == EINVAL,
          "a group that there is not");
    check(setsockopt(fd, SOL_NETLINK, 99, &value, sizeof value) < 0 && errno == ENOPROTOOPT,
          "an option that there is not");
    value = 1;
    check(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &value, sizeof value) == 0, "short answers");
    value = 0;
    length = sizeof value;
    check(getsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &value, &length) == 0 && value == 1, "it is on");
    check(getsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &value, &length) == 0 && value == 0, "another is not");
    struct pollfd poller = {fd, POLLIN | POLLOUT, 0};
    check(poll(&poller, 1, 0) == 1 && poller.revents == POLLOUT, "nothing to read");
    check(recv(fd, reply, sizeof reply, MSG_DONTWAIT) < 0 && errno == EAGAIN, "nothing comes");
    close(fd);
}

static void questions(void)
{
    int fd = netlink(SOCK_RAW, NETLINK_ROUTE);
    struct rtgenmsg any = {0};
    check(asked(fd, RTM_GETLINK, 0, "", 0) == 2, "too short for a question: no answer");
    check(ask(fd, RTM_GETLINK, NLM_F_ACK, &any, sizeof any) > 0 && answer(fd) == 0,
          "who asks nothing is told that all is well");
    check(asked(fd, NLMSG_NOOP, NLM_F_ACK, "", 0) == 0, "nothing to do, and told so");
    check(asked(fd, NLMSG_NOOP, 0, "", 0) == 2, "nothing to do");
    check(asked(fd, 5000, 0, &any, sizeof any) == -EOPNOTSUPP, "a type that there is not");
    check(((struct nlmsghdr *)reply)->nlmsg_len >= NLMSG_LENGTH(sizeof(int) + NLMSG_LENGTH(sizeof any)),
          "the answer has the question");
    int on = 1;
    setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
    check(asked(fd, 5000, 0, &any, sizeof any) == -EOPNOTSUPP, "again, in short");
    check(((struct nlmsghdr *)reply)->nlmsg_len == NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
              ((struct nlmsghdr *)reply)->nlmsg_flags & NLM_F_CAPPED,
          "the answer has its head");
    struct ifinfomsg link = {0};
    check(asked(fd, RTM_GETLINK, 0, &link, sizeof link) == -EINVAL, "which interface?");
    link.ifi_index = 30000;
    check(asked(fd, RTM_GETLINK, 0, &link, sizeof link) == -ENODEV, "one that there is not");
    link.ifi_index = 1;
    check(asked(fd, RTM_GETLINK, 0, &link, sizeof link) == 1 &&
              ((struct nlmsghdr *)reply)->nlmsg_type == RTM_NEWLINK,
          "the first one");
    check(((struct ifinfomsg *)NLMSG_DATA(reply))->ifi_index == 1, "it is");
    char body[64] = {0};
    struct rtattr *name = (void *)(body + sizeof link);
    name->rta_type = IFLA_IFNAME;
    name->rta_len = RTA_LENGTH(3);
    strcpy(RTA_DATA(name), "lo");
    check(asked(fd, RTM_GETLINK, 0, body, sizeof link + RTA_SPACE(3)) == 1 &&
              ((struct nlmsghdr *)reply)->nlmsg_type == RTM_NEWLINK,
          "by its name");
    strcpy(RTA_DATA(name), "ox");
    check(asked(fd, RTM_GETLINK, 0, body, sizeof link + RTA_SPACE(3)) == -ENODEV,
          "by a name that nothing has");

    struct sockaddr_nl to = {.nl_family = AF_NETLINK};
    check(connect(fd, (void *)&to, sizeof to) == 0, "connected to the kernel");
    check(connect(fd, (void *)&to, 3) < 0 && errno == EINVAL, "a short address");
    if (geteuid() != 0) {
        check(asked(fd, RTM_NEWLINK, 0, &link, sizeof link) == -EPERM, "nobody changes an interface");
        check(asked(fd, RTM_DELADDR, 0, body, sizeof(struct ifaddrmsg)) == -EPERM, "nor an address");
        to.nl_pid = 1;
        check(connect(fd, (void *)&to, sizeof to) < 0 && errno == EPERM, "nor talks to another");
        check(sendto(fd, "x", 1, 0, (void *)&to, sizeof to) < 0 && errno == EPERM, "by a message either");
    }
    check(send(fd, "", 0, 0) < 0 && errno == ENODATA, "nothing is no message");

    // Two questions in one message.
    struct {
        struct nlmsghdr head;
        struct ifinfomsg link;
    } two[2];
    memset(two, 0, sizeof two);
    for (int i = 0; i < 2; i++) {
        two[i].head.nlmsg_len = sizeof two[i];
        two[i].head.nlmsg_type = RTM_GETLINK;
        two[i].head.nlmsg_flags = NLM_F_REQUEST;
        two[i].head.nlmsg_seq = 100 + i;
        two[i].link.ifi_index = 1;
    }
    check(send(fd, two, sizeof two, 0) == sizeof two, "two at once");
    for (int i = 0; i < 2; i++)
        check(recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0 &&
                  ((struct nlmsghdr *)reply)->nlmsg_seq == (unsigned)100 + i,
              "each is answered");
    two[1].head.nlmsg_len = 5000;
    check(send(fd, two, sizeof two, 0) == sizeof two, "one that says it is longer than it is");
    check(recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0 && recv(fd, reply, sizeof reply, MSG_DONTWAIT) < 0,
          "is left out");
    two[0].head.nlmsg_len = 3;
    check(send(fd, two, sizeof two, 0) == sizeof two && recv(fd, reply, sizeof reply, MSG_DONTWAIT) < 0,
          "one that is shorter than a head too");
    check(send(fd, two, 7, 0) == 7 && recv(fd, reply, sizeof reply, MSG_DONTWAIT) < 0, "and half a head");

    // The part of an answer that is read, and its sender.
    ask(fd, RTM_GETLINK, NLM_F_REQUEST, &link, sizeof link);
    struct sockaddr_nl from = {.nl_pid = 7};
    socklen_t length = sizeof from;
    ssize_t whole = recvfrom(fd, reply, 8, MSG_PEEK | MSG_TRUNC, (void *)&from, &length);
    check(whole > 8 && from.nl_family == AF_NETLINK && from.nl_pid == 0 && length == sizeof from,
          "how long an answer is");
    check(recv(fd, reply, sizeof reply, 0) == whole, "all of it");
    struct pollfd poller = {fd, POLLIN, 0};
    check(poll(&poller, 1, 0) == 0, "read");
    // One who never reads is told so, and loses no more than answers.
    int told = 0;
    for (int i = 0; i < 20000; i++) {
        if (ask(fd, RTM_GETLINK, NLM_F_REQUEST, &link, sizeof link) < 0) {
            told = errno;
            break;
        }
    }
    check(told == 0 || told == ENOBUFS, "asking without reading");
    int number = 0, errors = 0;
    for (;;) {
        ssize_t got = recv(fd, reply, sizeof reply, MSG_DONTWAIT);
        if (got < 0 && errno == ENOBUFS)
            errors++;
        else if (got < 0)
            break;
        number++;
    }
    check(number > 50 && number < 20000 && errors >= 1, "answers were lost, and the socket says so");
    close(fd);
}

static int links, loop_up, addresses, fours, sixes, ways, home;

static void link_row(struct nlmsghdr *head)
{
    struct ifinfomsg *link = NLMSG_DATA(head);
    links++;
    if (head->nlmsg_type != RTM_NEWLINK || link->ifi_index != 1)
        return;
    int left = IFLA_PAYLOAD(head), mtu = 0, named = 0;
    for (struct rtattr *a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_IFNAME)
            named = !strcmp(RTA_DATA(a), "lo");
        if (a->rta_type == IFLA_MTU)
            mtu = *(int *)RTA_DATA(a);
    }
    loop_up =
        link->ifi_type == 772 &&
        (link->ifi_flags & (IFF_UP | IFF_LOOPBACK | IFF_RUNNING)) == (IFF_UP | IFF_LOOPBACK | IFF_RUNNING) &&
        named && mtu == 65536;
}

static void address_row(struct nlmsghdr *head)
{
    struct ifaddrmsg *address = NLMSG_DATA(head);
    addresses++;
    if (address->ifa_index != 1)
        return;
    int left = IFA_PAYLOAD(head);
    for (struct rtattr *a = IFA_RTA(address); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type != IFA_ADDRESS)
            continue;
        if (address->ifa_family == AF_INET)
            fours += address->ifa_prefixlen == 8 && *(unsigned *)RTA_DATA(a) == htonl(INADDR_LOOPBACK);
        else
            sixes += address->ifa_prefixlen == 128 && !memcmp(RTA_DATA(a), &in6addr_loopback, 16);
    }
}

static void way_row(struct nlmsghdr *head)
{
    struct rtmsg *way = NLMSG_DATA(head);
    ways++;
    int left = RTM_PAYLOAD(head);
    for (struct rtattr *a = RTM_RTA(way); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == RTA_DST && way->rtm_dst_len == 8 && way->rtm_type == RTN_LOCAL &&
            way->rtm_table == RT_TABLE_LOCAL)
            home += *(unsigned *)RTA_DATA(a) == htonl(0x7f000000);
}

static void lists(void)
{
    int fd = netlink(SOCK_RAW, NETLINK_ROUTE);
    struct ifinfomsg link = {.ifi_family = AF_UNSPEC};
    check(dump(fd, RTM_GETLINK, &link, sizeof link, link_row) == 0, "all interfaces");
    check(links >= 1 && loop_up, "lo is up");
    struct rtgenmsg any = {.rtgen_family = AF_UNSPEC};
    check(dump(fd, RTM_GETADDR, &any, sizeof any, address_row) == 0,
          "all addresses, asked for as glibc does");
    check(fours == 1 && sixes <= 1, "127.0.0.1/8");
    int all = addresses;
    addresses = fours = sixes = 0;
    any.rtgen_family = AF_INET;
    check(dump(fd, RTM_GETADDR, &any, sizeof any, address_row) == 0 && addresses >= 1 && addresses <= all &&
              fours == 1 && sixes == 0,
          "those of one family");
    struct rtmsg way = {.rtm_family = AF_INET};
    check(dump(fd, RTM_GETROUTE, &way, sizeof way, way_row) == 0, "all ways");
    check(ways >= 1 && home == 1, "127.0.0.0/8 is here");
    char body[64] = {0};
    memcpy(body, &way, sizeof way);
    ((struct rtmsg *)body)->rtm_dst_len = 32;
    struct rtattr *to = (void *)(body + sizeof way);
    to->rta_type = RTA_DST;
    to->rta_len = RTA_LENGTH(4);
    inet_pton(AF_INET, "127.3.4.5", RTA_DATA(to));
    check(asked(fd, RTM_GETROUTE, 0, body, sizeof way + RTA_SPACE(4)) == 1, "the way to 127.3.4.5");
    struct rtmsg *found = NLMSG_DATA(reply);
    check(((struct nlmsghdr *)reply)->nlmsg_type == RTM_NEWROUTE && found->rtm_type == RTN_LOCAL &&
              found->rtm_dst_len == 32,
          "which is here");
    // A list is told to its end before another is begun.
    check(ask(fd, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, &link, sizeof link) > 0, "a list");
    while (recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0) {
    }
    check(dump(fd, RTM_GETLINK, &link, sizeof link, link_row) == 0, "and another");
    close(fd);
}

static void libc(void)
{
    struct ifaddrs *list = 0;
    check(getifaddrs(&list) == 0, "getifaddrs");
    int four = 0, flags = 0;
    for (struct ifaddrs *one = list; one; one = one->ifa_next)
        if (!strcmp(one->ifa_name, "lo") && one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
            four = ((struct sockaddr_in *)one->ifa_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
            flags = one->ifa_flags;
        }
    check(four && flags & IFF_LOOPBACK && flags & IFF_UP, "lo has 127.0.0.1");
    freeifaddrs(list);
}

static unsigned wanted_ino, wanted_peer;
static int seen, peers, rows;
static char seen_name[128];

static void local_row(struct nlmsghdr *head)
{
    struct unix_diag_msg *row = NLMSG_DATA(head);
    rows++;
    if (row->udiag_ino != wanted_ino)
        return;
    seen = row->udiag_family == AF_UNIX ? row->udiag_state : -1;
    int left = head->nlmsg_len - NLMSG_LENGTH(sizeof *row);
    for (struct rtattr *a = (void *)(row + 1); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == UNIX_DIAG_NAME)
            memcpy(seen_name, RTA_DATA(a), RTA_PAYLOAD(a));
        if (a->rta_type == UNIX_DIAG_PEER)
            peers += *(unsigned *)RTA_DATA(a) == wanted_peer;
    }
}

#include <linux/inet_diag.h>
#include <netinet/in.h>

static int listeners, ends_seen;
static unsigned short wanted_port;

static void host_row(struct nlmsghdr *head)
{
    struct inet_diag_msg *row = NLMSG_DATA(head);
    if (row->idiag_family != AF_INET)
        return;
    if (row->id.idiag_sport == wanted_port && row->idiag_state == 10)
        listeners += row->idiag_inode == wanted_ino && row->id.idiag_src[0] == htonl(INADDR_LOOPBACK);
    if (row->id.idiag_dport == wanted_port && row->idiag_state == 1)
        ends_seen += row->id.idiag_dst[0] == htonl(INADDR_LOOPBACK);
}

static unsigned inode(int fd)
{
    struct stat st;
    fstat(fd, &st);
    return st.st_ino;
}

static int in_text(unsigned ino, char *line, size_t size)
{
    FILE *file = fopen("/proc/net/unix", "r");
    int found = 0;
    while (file && fgets(line, size, file)) {
        unsigned number;
        char name[200] = "";
        if (sscanf(line, "%*s %*x %*x %*x %*x %*x %u %199s", &number, name) >= 1 && number == ino) {
            found = 1;
            break;
        }
    }
    if (file)
        fclose(file);
    return found;
}

// A list that is longer than what may wait to be read.
static void long_lists(void)
{
    enum { MANY = 1500 };
    static int pairs[MANY][2];
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    int made = 0;
    while (made < MANY && socketpair(AF_UNIX, SOCK_DGRAM, 0, pairs[made]) == 0)
        made++;
    check(made == MANY, "many sockets");
    int fd = netlink(SOCK_DGRAM, NETLINK_SOCK_DIAG), refused = 0, ends = 0;
    struct unix_diag_req all = {.sdiag_family = AF_UNIX,
                                .udiag_states = -1,
                                .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN};
    rows = 0;
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, &all, sizeof all);
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, &all, sizeof all);
    for (ssize_t got; !ends && (got = recv(fd, reply, sizeof reply, MSG_DONTWAIT)) > 0;) {
        int left = got;
        for (struct nlmsghdr *head = (struct nlmsghdr *)reply; NLMSG_OK(head, left);
             head = NLMSG_NEXT(head, left)) {
            if (head->nlmsg_type == NLMSG_ERROR)
                refused += ((struct nlmsgerr *)NLMSG_DATA(head))->error == -EBUSY;
            ends += head->nlmsg_type == NLMSG_DONE;
            rows += head->nlmsg_type == SOCK_DIAG_BY_FAMILY;
        }
    }
    check(rows >= 2 * MANY && ends == 1, "all of a long list");
    check(refused == 1, "no second one meanwhile");
    struct sockaddr_nl nobody = {.nl_family = AF_NETLINK, .nl_pid = 4000000};
    check(sendto(fd, &all, sizeof all, 0, (void *)&nobody, sizeof nobody) < 0 &&
              errno == (geteuid() ? EPERM : ECONNREFUSED),
          "nothing is sent to a number that nobody has");
    close(fd);
    for (int i = 0; i < made; i++)
        close(pairs[i][0]), close(pairs[i][1]);
}

static void sockets(void)
{
    int fd = netlink(SOCK_DGRAM, NETLINK_SOCK_DIAG);
    struct unix_diag_req all = {.sdiag_family = AF_UNIX,
                                .udiag_states = -1,
                                .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN};
    check(asked(fd, 99, 0, &all, sizeof all) == -EINVAL, "a question that there is not");
    check(asked(fd, SOCK_DIAG_BY_FAMILY, 0, &all, 1) == -EINVAL, "one cut short");
    struct unix_diag_req none = all;
    none.sdiag_family = 200;
    check(asked(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &none, sizeof none) == -EINVAL,
          "a family that cannot be");
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0netlinks"};
    bind(listener, (void *)&name, 2 + 9);
    listen(listener, 5);
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    wanted_ino = inode(listener);
    check(dump(fd, SOCK_DIAG_BY_FAMILY, &all, sizeof all, local_row) == 0, "all unix sockets");
    check(seen == 10 && !memcmp(seen_name, "\0netlinks", 9), "the listener and its name");
    check(rows >= 3, "and the others");
    wanted_ino = inode(pair[0]), wanted_peer = inode(pair[1]);
    check(dump(fd, SOCK_DIAG_BY_FAMILY, &all, sizeof all, local_row) == 0 && seen == 1 && peers == 1,
          "a connected one and its peer");
    struct unix_diag_req one = all;
    one.udiag_ino = wanted_ino;
    one.udiag_cookie[0] = one.udiag_cookie[1] = -1;
    check(asked(fd, SOCK_DIAG_BY_FAMILY, 0, &one, sizeof one) == 1 &&
              ((struct unix_diag_msg *)NLMSG_DATA(reply))->udiag_ino == wanted_ino,
          "one by its number");
    one.udiag_ino = 0x7fffffff;
    check(asked(fd, SOCK_DIAG_BY_FAMILY, 0, &one, sizeof one) == -ENOENT, "a number that none has");
    seen = 0;
    all.udiag_states = 1 << 10;
    check(dump(fd, SOCK_DIAG_BY_FAMILY, &all, sizeof all, local_row) == 0 && seen == 0,
          "not those of other states");

    char line[512];
    check(in_text(inode(listener), line, sizeof line) && strstr(line, " 00010000 0001 01 ") &&
              strstr(line, " @netlinks\n"),
          "the listener in /proc/net/unix");
    check(in_text(wanted_ino, line, sizeof line) && strstr(line, " 00000000 0001 03 "),
          "a connected one there");
    unsigned gone = inode(pair[1]);
    close(pair[0]);
    close(pair[1]);
    check(!in_text(gone, line, sizeof line), "one that is closed is not");

    // Many, so that the list is told in pieces while others come and go.
    int many[400];
    for (int i = 0; i < 400; i++)
        many[i] = socket(AF_UNIX, SOCK_DGRAM, 0);
    rows = 0;
    all.udiag_states = -1;
    check(dump(fd, SOCK_DIAG_BY_FAMILY, &all, sizeof all, local_row) == 0 && rows >= 401, "a long list");
    rows = 0;
    ask(fd, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, &all, sizeof all);
    for (int i = 0; i < 400; i++)
        close(many[i]);
    int ended = 0;
    ssize_t got;
    while (!ended && (got = recv(fd, reply, sizeof reply, MSG_DONTWAIT)) > 0) {
        int left = got;
        for (struct nlmsghdr *head = (struct nlmsghdr *)reply; NLMSG_OK(head, left);
             head = NLMSG_NEXT(head, left))
            ended |= head->nlmsg_type == NLMSG_DONE;
    }
    check(ended, "sockets that go meanwhile do not matter");
    close(listener);
    close(fd);
}

// Whether a line of `path` has `text` in it.
static int told(const char *path, const char *text)
{
    char line[512];
    FILE *file = fopen(path, "r");
    int found = 0;
    while (file && fgets(line, sizeof line, file))
        found |= strstr(line, text) != 0;
    if (file)
        fclose(file);
    return found;
}

static void hosts(void)
{
    int fd = netlink(SOCK_DGRAM, NETLINK_SOCK_DIAG);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    bind(listener, (void *)&name, length);
    listen(listener, 3);
    getsockname(listener, (void *)&name, &length);
    check(connect(client, (void *)&name, length) == 0, "a connection of TCP");
    wanted_port = name.sin_port;
    wanted_ino = inode(listener);
    struct inet_diag_req_v2 all = {
        .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1};
    check(dump(fd, SOCK_DIAG_BY_FAMILY, &all, sizeof all, host_row) == 0, "all sockets of TCP");
    check(listeners == 1, "the listener");
    check(ends_seen == 1, "the end that connected");
    check(asked(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &all, 8) == -EINVAL, "a question cut short");
    all.sdiag_protocol = 200;
    int said = asked(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &all, sizeof all);
    // Linux, which finds out late, says so at the end of the list.
    struct nlmsghdr *last = (struct nlmsghdr *)reply;
    check(said == -ENOENT || (last->nlmsg_type == NLMSG_DONE && *(int *)NLMSG_DATA(last) == -ENOENT),
          "a protocol that there is not");
    char row[64];
    snprintf(row, sizeof row, ": 0100007F:%04X 00000000:0000 0A 00000000:", ntohs(wanted_port));
    check(told("/proc/net/tcp", row), "the listener in /proc/net/tcp");
    snprintf(row, sizeof row, " 0100007F:%04X 01 00000000:00000000 ", ntohs(wanted_port));
    check(told("/proc/net/tcp", row), "the end that connected");
    int six = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 other = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (bind(six, (void *)&other, sizeof other) == 0 && listen(six, 1) == 0) {
        length = sizeof other;
        getsockname(six, (void *)&other, &length);
        snprintf(row, sizeof row, ": 00000000000000000000000001000000:%04X ", ntohs(other.sin6_port));
        check(told("/proc/net/tcp6", row), "one of IPv6 in /proc/net/tcp6");
    }
    close(six);
    close(client);
    close(listener);
    close(fd);
}

static void texts(void)
{
    int fd = netlink(SOCK_RAW, NETLINK_ROUTE);
    struct sockaddr_nl name = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    bind(fd, (void *)&name, sizeof name);
    char row[128], end[64];
    snprintf(row, sizeof row, " 0   %-10d 00000001 ", getpid());
    snprintf(end, sizeof end, " %u ", inode(fd));
    check(told("/proc/net/netlink", row), "a socket in /proc/net/netlink");
    check(told("/proc/self/net/netlink", end), "by its number");
    close(fd);
    check(!told("/proc/net/netlink", row), "not when it is closed");
    check(told("/proc/net/dev", "    lo:"), "lo in /proc/net/dev");
    check(told("/proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n"),
          "::1 in /proc/net/if_inet6");
    check(told("/proc/net/route", "Iface\tDestination\tGateway"), "a head in /proc/net/route");
    check(told("/proc/net/arp", "IP address "), "a head in /proc/net/arp");
}

int main(void)
{
    ends();
    questions();
    lists();
    libc();
    sockets();
    long_lists();
    hosts();
    texts();
    return done();
}
