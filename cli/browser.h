// The browser of this machine.
#pragma once

#include <string>

namespace volador::cli {

// Opens a browser if there is a desktop. No process has to wait for it; its output is discarded.
void open_browser(const std::string& link);

}  // namespace volador::cli
