// Compiled kernels on disk, by hash of source, options and driver. Losing the folder loses only time.
#pragma once

#include <functional>
#include <string>

namespace firsttouch {

// The cached value of `key`, or what `make` gives, which is then kept. FIRSTTOUCH_CACHE names another folder than
// ~/.cache/firsttouch; an unwritable folder is no error.
std::string cached(const std::string& key, const std::function<std::string()>& make);

}  // namespace firsttouch
