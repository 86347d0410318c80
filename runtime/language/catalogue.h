// Translations embedded in the binary.
#pragma once

#include <string_view>

namespace volador {

// runtime/language/zh.json.
std::string_view catalogue_messages();
// dashboard/web/src/i18n/reasons.json.
std::string_view catalogue_reasons();
// dashboard/web/src/i18n/events.json.
std::string_view catalogue_events();
// The lines `"col.…": "…",` and `"word.…": "…",` of dashboard/web/src/i18n/zh.ts.
std::string_view catalogue_page();

}  // namespace volador
