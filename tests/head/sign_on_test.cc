// Sign-in by a provider: what its documents and tokens must say, and what begins and ends once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "head/sign_on/id_token.h"
#include "head/sign_on/pending_sign_ins.h"
#include "head/sign_on/provider.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kIssuer = "https://id.example.org/realms/lab";
const WallTime kSignOnNow{1'700'000'000s};

json good_claims() {
  return {{"iss", kIssuer},
          {"aud", "volador"},
          {"sub", "auth0|7"},
          {"nonce", "n"},
          {"exp", 1'700'000'300},
          {"iat", 1'700'000'000},
          {"name", "Mei"},
          {"preferred_username", "Mei"},
          {"email", "mei@example.org"}};
}

std::string refused_token(const std::function<void(json&)>& change, const std::string& nonce = "n") {
  json claims = good_claims();
  change(claims);
  const auto checked =
      check_id_token(claims.dump(), {.issuer = kIssuer, .client_id = "volador", .nonce = nonce}, kSignOnNow);
  return checked ? "none" : checked.error().message;
}

TEST(IdToken, IsAcceptedForThisClientAndSignInOnly) {
  EXPECT_EQ(refused_token([](json&) {}), "none");
  EXPECT_EQ(refused_token([](json& claims) { claims["aud"] = {"volador"}; }), "none");
  EXPECT_EQ(refused_token([](json& claims) {
              claims["aud"] = {"other", "volador"};
              claims["azp"] = "volador";
            }),
            "none");
  EXPECT_THAT(refused_token([](json& claims) { claims["iss"] = "https://other.example.org"; }),
              HasSubstr("iss: it is of the issuer \"https://other.example.org\""));
  EXPECT_THAT(refused_token([](json& claims) { claims["iss"] = std::string(kIssuer) + "/"; }), HasSubstr("iss"));
  EXPECT_THAT(refused_token([](json& claims) { claims["aud"] = "other"; }), HasSubstr("aud: it is not for the client"));
  EXPECT_THAT(refused_token([](json& claims) { claims.erase("aud"); }), HasSubstr("aud"));
  EXPECT_THAT(refused_token([](json& claims) { claims["aud"] = {"other", "volador"}; }), HasSubstr("azp"));
  EXPECT_THAT(refused_token([](json& claims) { claims["azp"] = "other"; }), HasSubstr("azp"));
  EXPECT_THAT(refused_token([](json& claims) { claims["nonce"] = "of another"; }), HasSubstr("nonce"));
  EXPECT_THAT(refused_token([](json& claims) { claims.erase("nonce"); }), HasSubstr("nonce"));
  EXPECT_EQ(refused_token([](json& claims) { claims.erase("nonce"); }, ""), "none") << "of a device";
  EXPECT_THAT(refused_token([](json& claims) { claims["sub"] = ""; }), HasSubstr("sub"));
  EXPECT_THAT(refused_token([](json& claims) { claims["sub"] = 7; }), HasSubstr("sub"));
}

TEST(IdToken, TimesHaveASmallSkew) {
  EXPECT_EQ(refused_token([](json& claims) { claims["exp"] = 1'700'000'000 - 59; }), "none");
  EXPECT_THAT(refused_token([](json& claims) { claims["exp"] = 1'700'000'000 - 60; }),
              HasSubstr("exp: it expired 60 s"));
  EXPECT_EQ(refused_token([](json& claims) { claims["iat"] = 1'700'000'000 + 60; }), "none");
  EXPECT_THAT(refused_token([](json& claims) { claims["iat"] = 1'700'000'000 + 61; }), HasSubstr("iat: it is 61 s in"));
  EXPECT_THAT(refused_token([](json& claims) { claims["nbf"] = 1'700'000'000 + 100; }), HasSubstr("nbf"));
  EXPECT_THAT(refused_token([](json& claims) { claims["exp"] = "tomorrow"; }), HasSubstr("exp: it is missing"));
  EXPECT_THAT(refused_token([](json& claims) { claims.erase("iat"); }), HasSubstr("iat: it is missing"));
}

SignOnOptions lab_options() {
  return {.issuer = kIssuer, .client_id = "volador", .label = "Lab ID", .groups_claim = "groups"};
}

TEST(SignOnIdentities, NamesMailAndGroupsComeFromTheClaims) {
  json claims = good_claims();
  claims["preferred_username"] = "Mei.Lin@example.org";
  claims["groups"] = {"/Vision", "nlp", 7};
  const auto who = identity_of(claims, lab_options());
  ASSERT_TRUE(who);
  EXPECT_EQ(who->subject, "auth0|7");
  EXPECT_EQ(who->name, "mei.lin");
  EXPECT_EQ(who->mail, "mei@example.org");
  EXPECT_THAT(who->groups.value(), ElementsAre("nlp", "vision"));
  claims["email"] = "no address";
  claims["name"] = "two\nlines";
  claims.erase("groups");
  const auto bare = identity_of(claims, lab_options());
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->mail + bare->full_name, "") << "what breaks a rule is left out";
  EXPECT_TRUE(bare->groups->empty());
  SignOnOptions no_groups = lab_options();
  no_groups.groups_claim.clear();
  EXPECT_FALSE(identity_of(claims, no_groups)->groups.has_value());
}

TEST(SignOnIdentities, DomainsAndGroupsMayBeLimited) {
  SignOnOptions options = lab_options();
  options.allowed_domains = {"example.org"};
  json claims = good_claims();
  EXPECT_THAT(identity_of(claims, options).error().message, HasSubstr("mei@example.org is verified"));
  claims["email_verified"] = true;
  EXPECT_TRUE(identity_of(claims, options));
  for (const char* mail : {"mei@example.org.evil.net", "mei@evil.net", "mei@sub.example.org", ""}) {
    claims["email"] = mail;
    EXPECT_EQ(identity_of(claims, options).error().code, ErrorCode::kPermissionDenied) << mail;
  }
  options.allowed_domains.clear();
  options.allowed_groups = {"/lab/staff"};
  EXPECT_THAT(identity_of(claims, options).error().message, HasSubstr("mei is in none of the groups"));
  claims["groups"] = {"/lab/staff"};
  EXPECT_TRUE(identity_of(claims, options));
}

TEST(SignOnIdentities, UserInfoIsOfTheSameUserAndNeverOverridesTheToken) {
  json claims = good_claims();
  EXPECT_FALSE(lacks_claims(claims, {}));
  claims.erase("email");
  EXPECT_TRUE(lacks_claims(claims, {}));
  EXPECT_FALSE(add_user_info(claims, R"({"sub":"8","email":"eve@example.org"})"));
  EXPECT_FALSE(add_user_info(claims, "none"));
  ASSERT_TRUE(add_user_info(claims, R"({"sub":"auth0|7","email":"m@example.org","name":"Other"})"));
  EXPECT_EQ(claims["email"], "m@example.org");
  EXPECT_EQ(claims["name"], "Mei");
}

json discovery_document() {
  return {{"issuer", kIssuer},
          {"authorization_endpoint", "https://id.example.org/auth"},
          {"token_endpoint", "https://id.example.org/token"},
          {"jwks_uri", "https://id.example.org/keys"}};
}

TEST(ProviderMetadata, IsOfTheIssuerAndEncrypted) {
  json document = discovery_document();
  EXPECT_TRUE(parse_metadata(document.dump(), kIssuer));
  EXPECT_THAT(parse_metadata(document.dump(), "https://id.example.org").error().message,
              HasSubstr("both must be the same text"));
  document["token_endpoint"] = "http://id.example.org/token";
  EXPECT_THAT(parse_metadata(document.dump(), kIssuer).error().message, HasSubstr("token_endpoint: expected"));
  document.erase("token_endpoint");
  EXPECT_FALSE(parse_metadata(document.dump(), kIssuer));
  EXPECT_FALSE(parse_metadata("<html>", kIssuer));
  EXPECT_TRUE(check_provider_url("oidc.issuer", "http://127.0.0.1:5556/dex"));
  EXPECT_FALSE(check_provider_url("oidc.issuer", "http://127.0.0.1.example.org/"));
  EXPECT_FALSE(check_provider_url("oidc.issuer", "https://id.example.org/?tenant=a"));
}

TEST(ProviderMetadata, RequestsHaveThePkceChallengeAndTheSecretOnce) {
  // The example of RFC 7636, appendix B.
  EXPECT_EQ(code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
  SignOnOptions options = lab_options();
  options.client_secret = security::Secret("s3cret/");
  auto provider = parse_metadata(discovery_document().dump(), kIssuer).value();
  const std::string url = authorization_url(
      provider, options, {.callback = "http://127.0.0.1:1/cb", .state = "s", .nonce = "n", .verifier = "v"});
  EXPECT_THAT(url, HasSubstr("https://id.example.org/auth?response_type=code&client_id=volador"));
  EXPECT_THAT(url, HasSubstr("redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcb&scope=openid%20profile%20email&state=s"));
  EXPECT_THAT(url, HasSubstr("code_challenge_method=S256"));
  EXPECT_THAT(url, Not(HasSubstr("s3cret")));
  const auto basic = code_request(provider, options, "c", "v", "http://127.0.0.1:1/cb");
  EXPECT_THAT(*basic.form, Not(HasSubstr("s3cret")));
  EXPECT_THAT(basic.headers, ::testing::Contains("Authorization: Basic dm9sYWRvcjpzM2NyZXQlMkY="));
  provider.takes_basic = false;
  const auto in_form = code_request(provider, options, "c", "v", "http://127.0.0.1:1/cb");
  EXPECT_THAT(*in_form.form, HasSubstr("code_verifier=v&client_id=volador&client_secret=s3cret%2F"));
}

TEST(ProviderMetadata, AnswersOfTheTokenEndpoint) {
  bool slower = false;
  const auto parsed = [&](const char* body, bool delivered = false) {
    return parse_tokens({.status = delivered ? 200 : 400, .delivered = delivered, .body = body, .why = "status 400"},
                        slower);
  };
  EXPECT_EQ(parsed(R"({"id_token":"a.b.c","access_token":"t"})", true).value()->id_token, "a.b.c");
  EXPECT_FALSE(parsed(R"({"error":"authorization_pending"})").value().has_value());
  EXPECT_FALSE(slower);
  EXPECT_FALSE(parsed(R"({"error":"slow_down"})").value().has_value());
  EXPECT_TRUE(slower);
  EXPECT_EQ(parsed(R"({"error":"access_denied"})").error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(parsed(R"({"error":"invalid_grant","error_description":"Code not valid"})").error().message,
              HasSubstr("invalid_grant: Code not valid"));
  EXPECT_THAT(parsed(R"({"error":"invalid_client"})").error().message, HasSubstr("oidc.client_secret_file"));
  EXPECT_THAT(parsed("<html>").error().message, HasSubstr("status 400"));
  EXPECT_THAT(parsed(R"({"access_token":"t"})", true).error().message, HasSubstr("openid"));
}

const BootTime kBegan{100s};

TEST(BrowserSignInsTest, AStateIsUsedOnceByTheBrowserThatBegan) {
  BrowserSignIns sign_ins;
  const auto begun = sign_ins.begin({.callback = "cb", .next = "/", .peer = "a"}, kBegan).value();
  EXPECT_NE(begun.sign_in.nonce, begun.sign_in.verifier);
  EXPECT_EQ(sign_ins.take(begun.state, "of another browser", kBegan).error().code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(sign_ins.take(begun.state, "", kBegan));
  EXPECT_EQ(sign_ins.take(begun.state, begun.binding, kBegan).value().nonce, begun.sign_in.nonce);
  EXPECT_FALSE(sign_ins.take(begun.state, begun.binding, kBegan)) << "a replay";
  const auto late = sign_ins.begin({.callback = "cb", .next = "/", .peer = "a"}, kBegan).value();
  EXPECT_FALSE(sign_ins.take(late.state, late.binding, kBegan + BrowserSignIns::kLife));
}

TEST(BrowserSignInsTest, OnePeerOnlyDropsItsOwn) {
  BrowserSignIns sign_ins;
  const auto first = sign_ins.begin({.callback = "cb", .next = "/", .peer = "a"}, kBegan).value();
  const auto other = sign_ins.begin({.callback = "cb", .next = "/", .peer = "b"}, kBegan).value();
  for (size_t i = 0; i < BrowserSignIns::kPerPeerMax; ++i)
    ASSERT_TRUE(sign_ins.begin({.callback = "cb", .next = "/", .peer = "a"}, kBegan + 1s));
  EXPECT_FALSE(sign_ins.take(first.state, first.binding, kBegan + 1s));
  EXPECT_TRUE(sign_ins.take(other.state, other.binding, kBegan + 1s));
}

TEST(DeviceSignInsTest, ACommandLineIsApprovedOnce) {
  DeviceSignIns sign_ins;
  const std::string code = sign_ins.new_user_code();
  EXPECT_THAT(code, ::testing::MatchesRegex("[B-Z]{4}-[B-Z]{4}"));
  const std::string handle = sign_ins.begin({.peer = "a", .user_code = code, .expires = kBegan + 600s}, kBegan).value();
  EXPECT_EQ(sign_ins.find("other", kBegan), nullptr);
  DeviceSignIns::SignIn* found = sign_ins.find_code(code, kBegan);
  ASSERT_NE(found, nullptr);
  EXPECT_FALSE(sign_ins.approve("", kBegan));
  const std::string approval = sign_ins.await_approval(*found, {.subject = "7", .name = "mei"});
  EXPECT_FALSE(sign_ins.find(handle, kBegan)->approved);
  EXPECT_EQ(sign_ins.approve(approval, kBegan).value()->approved->name, "mei");
  EXPECT_EQ(sign_ins.approve(approval, kBegan).error().code, ErrorCode::kNotFound);
  sign_ins.end(handle);
  EXPECT_EQ(sign_ins.find(handle, kBegan), nullptr);
}

TEST(DeviceSignInsTest, TheirNumberIsLimited) {
  DeviceSignIns sign_ins;
  for (size_t i = 0; i < DeviceSignIns::kPerPeerMax; ++i)
    ASSERT_TRUE(sign_ins.begin({.peer = "a", .expires = kBegan + 600s}, kBegan));
  EXPECT_EQ(sign_ins.begin({.peer = "a", .expires = kBegan + 600s}, kBegan).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(sign_ins.begin({.peer = "b", .expires = kBegan + 600s}, kBegan));
  EXPECT_TRUE(sign_ins.begin({.peer = "a", .expires = kBegan + 1200s}, kBegan + 600s)) << "the others have expired";
}

}  // namespace
}  // namespace volador::head
