// Pages of the sign-in by a provider that browsers see outside the dashboard's page. Pure.
#pragma once

#include <string>
#include <string_view>

namespace volador::dashboard {

// The texts are English, or Chinese where a browser's Accept-Language prefers it. What others wrote is escaped.

// Why a sign-in failed, with a way back.
std::string failed_page(std::string_view why, std::string_view accept_language);

// Asks whether a command line may act for the user.
struct CommandLineRequest {
  std::string user, user_code;
  std::string device;    // The command line's address; may be empty.
  std::string approval;  // Secret of the form.
};
std::string approval_page(const CommandLineRequest& asked, std::string_view accept_language);
std::string approved_page(std::string_view user, std::string_view accept_language);

}  // namespace volador::dashboard
