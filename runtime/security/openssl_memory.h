// Reduces OpenSSL's memory for idle connections.
#pragma once

namespace volador::security {

// Each connection holds four buffers of 17 kB, of which short messages use the first page. Their other pages are
// released to the system until they are written; their old contents are lost. Call before OpenSSL is used in this
// process; otherwise returns false without effect.
bool keep_idle_buffers_small();

}  // namespace volador::security
