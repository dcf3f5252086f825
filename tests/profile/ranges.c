/* Sends ranges of every form through NVTX and prints when, in nanoseconds of CLOCK_MONOTONIC. */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void at(const char* what) { printf("%s %llu\n", what, now()); }

static nvtxEventAttributes_t event(void) {
    nvtxEventAttributes_t made;
    memset(&made, 0, sizeof made);
    made.version = NVTX_VERSION;
    made.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    return made;
}

static void* in_thread(void* name) {
    nvtxRangePushA((const char*)name);
    nvtxRangePushA("inner");
    usleep(1000);
    nvtxRangePop();
    nvtxRangePop();
    return 0;
}

int main(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("solver"), wide = nvtxDomainCreateW(L"gr\u00fcn");
    nvtxEventAttributes_t registered = event(), ascii = event(), unicode = event(), none = event();
    registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    registered.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    ascii.messageType = NVTX_MESSAGE_TYPE_ASCII;
    ascii.message.ascii = "ascii";
    unicode.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    unicode.message.unicode = L"\u03c0 \U0001F600";

    at("before outer");
    printf("level %d\n", nvtxRangePushA("outer"));
    at("in outer");
    usleep(20000);
    at("before middle");
    nvtxRangePushW(L"m\u00efddle");
    at("in middle");
    nvtxRangePushEx(&ascii);
    nvtxMarkA("mark a");
    nvtxMarkW(L"mark w");
    nvtxMarkEx(&unicode);
    nvtxRangePop();
    nvtxRangePop();
    at("still in outer");
    printf("level %d\n", nvtxRangePop());
    at("after outer");

    nvtxRangeId_t first = nvtxRangeStartA("first"), second = nvtxRangeStartW(L"second"), third = nvtxRangeStartEx(&none);
    nvtxRangeEnd(first);
    nvtxRangeEnd(third);
    nvtxRangeEnd(second);

    nvtxDomainRangePushEx(domain, &registered);
    nvtxDomainMarkEx(wide, &unicode);
    nvtxDomainRangePop(domain);
    nvtxRangeId_t fourth = nvtxDomainRangeStartEx(domain, &registered);
    nvtxDomainRangeEnd(domain, fourth);
    nvtxDomainDestroy(wide);

    pthread_t threads[2];
    pthread_create(&threads[0], 0, in_thread, (void*)"left");
    pthread_create(&threads[1], 0, in_thread, (void*)"right");
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
