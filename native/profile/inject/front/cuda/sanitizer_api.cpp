#include "profile/inject/front/cuda/sanitizer_api.hpp"

namespace firsttouch::sanitizer {

Api& Api::instance() {
    static Api api;
    return api;
}

Api::Api() : library("sanitizer", {"libsanitizer-public.so"}) {
    get_result_string = library.function("sanitizerGetResultString");
    subscribe = library.function("sanitizerSubscribe");
    enable_domain = library.function("sanitizerEnableDomain");
    add_patches = library.function("sanitizerAddPatchesFromFile");
    patch_instructions = library.function("sanitizerPatchInstructions");
    patch_module = library.function("sanitizerPatchModule");
    set_launch_data = library.function("sanitizerSetLaunchCallbackData");
    allocate = library.function("sanitizerAlloc");
    synchronise = library.function("sanitizerStreamSynchronize");
    copy_in = library.function("sanitizerMemcpyHostToDeviceAsync");
    copy_out = library.function("sanitizerMemcpyDeviceToHost");
}

}  // namespace firsttouch::sanitizer
