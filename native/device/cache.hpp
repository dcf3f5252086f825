// A cache of compiled kernels on disk, keyed by a hash of source, options and driver. It is safe to delete.
#pragma once

#include <functional>
#include <string>

namespace firsttouch {

// Returns the cached value of `key`, or else calls `make` and stores its result. The directory is FIRSTTOUCH_CACHE, or
// ~/.cache/firsttouch by default. If it cannot be written, nothing is stored. Truncated or damaged files are ignored.
std::string cached(const std::string& key, const std::function<std::string()>& make);

}  // namespace firsttouch
