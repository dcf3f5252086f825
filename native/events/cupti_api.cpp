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
    library.load(get_version, "cuptiGetVersion");
    library.load(get_result_string, "cuptiGetResultString");
    library.load(subscribe, "cuptiSubscribe");
    library.load(unsubscribe, "cuptiUnsubscribe");
    library.load(register_callbacks, "cuptiActivityRegisterCallbacks");
    library.load(configure, "cuptiActivityConfigureUnifiedMemoryCounter");
    library.load(enable, "cuptiActivityEnable");
    library.load(disable, "cuptiActivityDisable");
    library.load(flush, "cuptiActivityFlushAll");
    library.load(next_record, "cuptiActivityGetNextRecord");
    library.load(dropped_records, "cuptiActivityGetNumDroppedRecords");
    library.load(get_timestamp, "cuptiGetTimestamp");
    library.load_optional(enable_callback, "cuptiEnableCallback");
}

}  // namespace firsttouch::cupti
