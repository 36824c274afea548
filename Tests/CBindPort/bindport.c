/* librdkafka 2.0.2's mock broker always asks for any free port (rdkafka_mock.c, rd_kafka_mock_broker_new), so a broker
   could not have a port that was kept for it. This defines `bind` in the executable, which the dynamic linker finds
   before libc's. Its connections do not set TCP_NODELAY as a broker's do, and an answer in two parts would wait for the
   client's acknowledgement of the first: they inherit it from the socket that listens. Development tool only. */
#define _GNU_SOURCE
#include "bindport.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local uint16_t wish = 0;

void bindport_next(uint16_t port) { wish = port; }

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t length) {
    if (address && address->sa_family == AF_INET) {
        /* Fails for a socket that is not TCP's. */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    }
    if (wish && address && address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in changed = *(const struct sockaddr_in *)address;
        if (changed.sin_port == 0 && changed.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) {
            changed.sin_port = htons(wish);
            wish = 0;
            return (int)syscall(SYS_bind, fd, &changed, sizeof(changed));
        }
    }
    return (int)syscall(SYS_bind, fd, address, length);
}
