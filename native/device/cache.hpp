// Compiled kernels on disk, by hash of source, options and driver. Losing the folder loses only time.
#pragma once

#include <functional>
#include <string>

namespace firsttouch {

// The cached value of `key`; where there is none, the result of `make`, which is then stored. The folder is
// ~/.cache/firsttouch unless FIRSTTOUCH_CACHE names another; one that cannot be written costs only time. A file that is
// truncated or damaged is not used.
std::string cached(const std::string& key, const std::function<std::string()>& make);

}  // namespace firsttouch
