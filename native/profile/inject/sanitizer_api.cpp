#include "profile/inject/sanitizer_api.hpp"

namespace firsttouch::sanitizer {

Api& Api::instance() {
    static Api api;
    return api;
}

Api::Api() : library("sanitizer", {"libsanitizer-public.so"}) {
    library.load(get_result_string, "sanitizerGetResultString");
    library.load(subscribe, "sanitizerSubscribe");
    library.load(enable_domain, "sanitizerEnableDomain");
    library.load(add_patches, "sanitizerAddPatchesFromFile");
    library.load(patch_instructions, "sanitizerPatchInstructions");
    library.load(patch_module, "sanitizerPatchModule");
    library.load(set_launch_data, "sanitizerSetLaunchCallbackData");
    library.load(allocate, "sanitizerAlloc");
    library.load(synchronise, "sanitizerStreamSynchronize");
    library.load(copy_in, "sanitizerMemcpyHostToDeviceAsync");
    library.load(copy_out, "sanitizerMemcpyDeviceToHost");
}

}  // namespace firsttouch::sanitizer
