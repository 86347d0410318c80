// What OpenSSL takes of memory for connections that are mostly silent.
#pragma once

namespace volador::security {

// Each connection holds four buffers of 17 kB, of which short messages fill the first page. From here on their other
// pages are given back to the system until they are written, whatever lay there before. To be called before anything
// uses OpenSSL in this process; else false, and everything stays as it is.
bool keep_idle_buffers_small();

}  // namespace volador::security
