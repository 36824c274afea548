#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#if LIBCURL_VERSION_NUM < 0x075000
#error "libcurl 7.80.0 or later is needed: it asks before each request if the address of its connection is allowed"
#endif

/* curl_easy_setopt, curl_multi_setopt and curl_easy_getinfo are variadic, so Swift cannot call them. */
static inline CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_text(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_context(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_receiver(CURL *easy, CURLoption option, curl_write_callback value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_open_socket(CURL *easy, curl_opensocket_callback value) {
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, value);
}
static inline CURLcode ccurl_set_before_request(CURL *easy, curl_prereq_callback value) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, value);
}
/* For CURLOPT_COPYPOSTFIELDS, whose length was set before. */
static inline CURLcode ccurl_set_bytes(CURL *easy, CURLoption option, const void *bytes) {
    return curl_easy_setopt(easy, option, bytes);
}
/* The bytes are copied. */
static inline CURLcode ccurl_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {(void *)bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(easy, option, &blob);
}
static inline CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode ccurl_multi_set_callbacks(
    CURLM *multi, curl_socket_callback socket, curl_multi_timer_callback timer, void *context) {
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    if (code == CURLM_OK) code = curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    if (code == CURLM_OK) code = curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    if (code == CURLM_OK) code = curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
    return code;
}
static inline CURLcode ccurl_info_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode ccurl_info_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}

/* The list of protocols became a text in 7.85.0; the number works before. */
static inline CURLcode ccurl_set_https_only(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
#else
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTPS);
#endif
}
static inline CURLcode ccurl_set_http_only(CURL *easy) {
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
#else
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP);
#endif
}

/* libcurl knows the file of the system's roots with which it was built. */
static inline int ccurl_has_roots_file(void) {
    return curl_version_info(CURLVERSION_NOW)->cainfo != NULL;
}
