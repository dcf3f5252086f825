// The functions of the stand-in for CUPTI (tests/standins/cupti.cpp), which is a part of the tests of events.
#pragma once

#include <type_traits>

#include "events/cupti_api.hpp"

#define DECLARED(member, function)                                                                                     \
    extern "C" std::remove_pointer_t<decltype(firsttouch::cupti::Functions::member)> function
DECLARED(get_version, cuptiGetVersion);
DECLARED(get_result_string, cuptiGetResultString);
DECLARED(subscribe, cuptiSubscribe);
DECLARED(unsubscribe, cuptiUnsubscribe);
DECLARED(register_callbacks, cuptiActivityRegisterCallbacks);
DECLARED(configure, cuptiActivityConfigureUnifiedMemoryCounter);
DECLARED(enable, cuptiActivityEnable);
DECLARED(disable, cuptiActivityDisable);
DECLARED(flush, cuptiActivityFlushAll);
DECLARED(next_record, cuptiActivityGetNextRecord);
DECLARED(dropped_records, cuptiActivityGetNumDroppedRecords);
DECLARED(get_timestamp, cuptiGetTimestamp);
DECLARED(enable_callback, cuptiEnableCallback);
#undef DECLARED

namespace firsttouch {

inline const cupti::Functions& standin() {
    static const cupti::Functions functions{.get_version = cuptiGetVersion,
                                            .get_result_string = cuptiGetResultString,
                                            .subscribe = cuptiSubscribe,
                                            .unsubscribe = cuptiUnsubscribe,
                                            .register_callbacks = cuptiActivityRegisterCallbacks,
                                            .configure = cuptiActivityConfigureUnifiedMemoryCounter,
                                            .enable = cuptiActivityEnable,
                                            .disable = cuptiActivityDisable,
                                            .flush = cuptiActivityFlushAll,
                                            .next_record = cuptiActivityGetNextRecord,
                                            .dropped_records = cuptiActivityGetNumDroppedRecords,
                                            .get_timestamp = cuptiGetTimestamp,
                                            .enable_callback = cuptiEnableCallback};
    return functions;
}

}  // namespace firsttouch
