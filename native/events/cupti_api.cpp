#include "events/cupti_api.hpp"

#include "device/device.hpp"

namespace firsttouch::cupti {
namespace {

Library open_library() {
    try {
        return {"cupti", {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}};
    } catch (const Unavailable& missing) {
        throw Unavailable("events need CUPTI, which pip install nvidia-cuda-cupti installs; " +
                          std::string(missing.what()));
    }
}

}  // namespace

Cupti& Cupti::instance() {
    static Cupti cupti;
    return cupti;
}

Cupti::Cupti() : library(open_library()) {
    get_version = library.function("cuptiGetVersion");
    get_result_string = library.function("cuptiGetResultString");
    subscribe = library.function("cuptiSubscribe");
    unsubscribe = library.function("cuptiUnsubscribe");
    register_callbacks = library.function("cuptiActivityRegisterCallbacks");
    configure = library.function("cuptiActivityConfigureUnifiedMemoryCounter");
    enable = library.function("cuptiActivityEnable");
    disable = library.function("cuptiActivityDisable");
    flush = library.function("cuptiActivityFlushAll");
    next_record = library.function("cuptiActivityGetNextRecord");
    dropped_records = library.function("cuptiActivityGetNumDroppedRecords");
    get_timestamp = library.function("cuptiGetTimestamp");
    enable_callback = library.optional_function("cuptiEnableCallback");
}

}  // namespace firsttouch::cupti
