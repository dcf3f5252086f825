// An idle client of CUPTI: it asks for what firsttouch asks for, and throws every record away. The driver loads it
// where CUDA_INJECTION64_PATH names it (fixed_time.py):
//   c++ -O2 -std=c++17 -shared -fPIC reference_cupti.cpp -I$CUDA/include -L$CUDA/lib64 -lcupti -o libreference_cupti.so
#include <cstdlib>
#include <cupti.h>
#include <initializer_list>

namespace {
void CUPTIAPI ask(uint8_t** buffer, size_t* bytes, size_t* records) {
    *bytes = 1 << 20;
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
    *records = 0;
}
void CUPTIAPI take(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t) { std::free(buffer); }
void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
void at_exit() { cuptiActivityFlushAll(1); }
}  // namespace

extern "C" int InitializeInjection() {
    CUpti_SubscriberHandle subscriber;
    if (cuptiSubscribe(&subscriber, called, nullptr) != CUPTI_SUCCESS) return 0;
    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    cuptiActivityRegisterCallbacks(ask, take);
    for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                          CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMORY2})
        cuptiActivityEnable(kind);
    std::atexit(at_exit);
    return 1;
}
