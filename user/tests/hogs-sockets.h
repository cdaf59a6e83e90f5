/* Sockets, connections and messages until there are no more: a part of `hogs`.
 *
 * Interface: the kinds sockets, connections, inboxes and messages.
 */
#ifndef HOGS_SOCKETS_H
#define HOGS_SOCKETS_H

/* A connection with something unread. */
static int take_socket(void)
{
    int s[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, s) || write(s[0], s, 1) != 1 || write(s[1], s, 1) != 1 ? -1
                                                                                                      : 0;
}

static struct told sockets(void) { return hog_descriptors(take_socket, 5000); }

/* A connection over loopback with something unread. */
static int take_connection(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0), other = -1;
    if (listener >= 0 && one >= 0 && bind(listener, (void *)&here, length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (void *)&here, &length) == 0 && connect(one, (void *)&here, length) == 0)
        other = accept(listener, 0, 0);
    int error = errno;
    close(listener);
    errno = error;
    return other < 0 || write(one, "x", 1) != 1 || write(other, "y", 1) != 1 ? -1 : 0;
}

static struct told connections(void) { return hog_descriptors(take_connection, 5000); }

/* A socket that has got messages over loopback, which nobody reads. */
static int take_inbox(void)
{
    static char message[4000];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (void *)&here, length) || getsockname(fd, (void *)&here, &length))
        return -1;
    for (int i = 0; i < 8; i++)
        if (sendto(fd, message, sizeof message, 0, (void *)&here, length) < 0)
            return -1;
    return 0;
}

static struct told inboxes(void) { return hog_descriptors(take_inbox, 20000); }

/* Messages that nobody reads, each with two descriptors, as many as go into one socket and then into
 * another. */
static int take_message(void)
{
    static int to[2] = {-1, -1};
    static char bytes[3000];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(8)];
    } control = {.head = {.cmsg_len = CMSG_LEN(8), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    for (int tries = 0; tries < 2; tries++) {
        memcpy(CMSG_DATA(&control.head), to, 8);
        if (to[0] >= 0 && sendmsg(to[0], &message, MSG_DONTWAIT) >= 0)
            return 0;
        if (to[0] >= 0 && errno == ETOOMANYREFS) {
            message.msg_controllen = 0;
            if (sendmsg(to[0], &message, MSG_DONTWAIT) >= 0)
                return 0;
        }
        if (to[0] >= 0 && errno != EAGAIN)
            return -1;
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, to))
            return -1;
    }
    return -1;
}

static struct told messages(void) { return hog_descriptors(take_message, 200000); }
#endif
