/* librdkafka 2.0.2's mock broker always asks for any free port (rdkafka_mock.c, rd_kafka_mock_broker_new), so a broker
   that starts again would have another address. This defines `bind` in the executable, which the dynamic linker finds
   before libc's. Development tool only. */
#define _GNU_SOURCE
#include "bindport.h"
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint16_t wish = 0;

void bindport_next(uint16_t port) { atomic_store(&wish, port); }

int bindport_is_free(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    int code = (int)syscall(SYS_bind, fd, &address, sizeof(address));
    close(fd);
    return code == 0;
}

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t length) {
    if (address && address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in changed = *(const struct sockaddr_in *)address;
        if (changed.sin_port == 0 && changed.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) {
            changed.sin_port = htons(atomic_exchange(&wish, 0));
            return (int)syscall(SYS_bind, fd, &changed, sizeof(changed));
        }
    }
    return (int)syscall(SYS_bind, fd, address, length);
}
