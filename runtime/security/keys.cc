#include "runtime/security/keys.h"

#include "runtime/security/openssl_types.h"

namespace volador::security {

Result<KeyRequest> make_key_request(Role role, std::string_view name) {
  VOLADOR_TRY(check_common_name(name));
  const KeyPtr key = make_ec_key();
  const RequestPtr request(X509_REQ_new());
  VOLADOR_CHECK(request != nullptr);
  X509_NAME* subject = X509_REQ_get_subject_name(request.get());
  const auto add = [&](const char* field, std::string_view value) {
    return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
  };
  if (!add("OU", to_string(role)) || !add("CN", name)) {
    return make_error(ErrorCode::kInvalidArgument, "name: expected UTF-8: " + take_openssl_reason());
  }
  VOLADOR_CHECK(
      X509_REQ_set_pubkey(request.get(), key.get()) == 1 && X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0,
      take_openssl_reason());
  return KeyRequest{.key_pem = to_pem(key.get()), .csr_pem = to_pem(request.get())};
}

}  // namespace volador::security
