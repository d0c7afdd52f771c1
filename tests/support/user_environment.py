"""Settings of a user, in variables and files that S3 clients read, which all point to another server."""

import json
from pathlib import Path

# Read by one or more of botocore, object_store, fsspec, s3fs, s5cmd, aws-sdk-go, Go, requests, aiohttp, davix, curl.
SETTINGS = {
    "AWS_PROFILE": "not-there",
    "AWS_DEFAULT_PROFILE": "not-there",
    "AWS_REGION": "eu-north-9",
    "AWS_DEFAULT_REGION": "eu-north-9",
    "AWS_SESSION_TOKEN": "token-of-another-identity",
    "AWS_SECURITY_TOKEN": "token-of-another-identity",
    "AWS_TOKEN": "token-of-another-identity",
    "AWS_CHECKSUM_ALGORITHM": "SHA256",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_supported",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_supported",
    "AWS_SKIP_SIGNATURE": "true",
    "AWS_UNSIGNED_PAYLOAD": "false",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    "AWS_S3_EXPRESS": "true",
    "AWS_COPY_IF_NOT_EXISTS": "header:x-copy:none",
    "AWS_CONDITIONAL_PUT": "disabled",
    "AWS_REQUEST_PAYER": "true",
    "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
    "AWS_SSE_KMS_KEY_ID": "0000",
    "AWS_DISABLE_TAGGING": "true",
    "AWS_USE_FIPS_ENDPOINT": "true",
    "AWS_USE_DUALSTACK_ENDPOINT": "true",
    "AWS_S3_USE_ARN_REGION": "true",
    "AWS_MAX_ATTEMPTS": "9",
    "AWS_RETRY_MODE": "adaptive",
    "AWS_DEFAULTS_MODE": "mobile",
    "AWS_SDK_LOAD_CONFIG": "true",
    "AWS_SDK_UA_APP_ID": "users-app",
    "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "9",
    "AWS_USER_AGENT": "users-agent",
    "AWS_TIMEOUT": "1ms",
    "AWS_CONNECT_TIMEOUT": "1ms",
    "AWS_DEFAULT_CONTENT_TYPE": "users/type",
    "FSSPEC_S3_ANON": "true",
    "FSSPEC_S3_REQUESTER_PAYS": "true",
    "REQUEST_METHOD": "GET",
    "GODEBUG": "http2client=1",
}
ADDRESSES = (  # variables with the URL of another server
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_S3_ENDPOINT", "AWS_METADATA_ENDPOINT"),
    *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_PROXY_URL", "S3_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL"),
    *("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
)
# variables with a file that has no certificate
TRUST = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


def user_environment(home: Path, elsewhere: str) -> dict[str, str]:
    """Write the files below `home`, and return the variables. elsewhere: URL of a server that must get no requests."""
    section = f"endpoint_url = {elsewhere}\nregion = eu-north-9\nca_bundle = {home}/none.pem\ns3 =\n"
    section += "  use_accelerate_endpoint = true\n  addressing_style = virtual\n  payload_signing_enabled = true\n"
    service = f"[services other]\ns3 =\n  endpoint_url = {elsewhere}\n"
    fsspec = {"s3": {"anon": True, "endpoint_url": elsewhere, "default_block_size": 5, "requester_pays": True}}
    for name, text in {
        ".aws/config": f"[default]\nservices = other\n{section}\n{service}",
        ".aws/credentials": "[default]\naws_access_key_id = ELSE\naws_secret_access_key = else\n",
        ".config/fsspec/conf.json": json.dumps(fsspec),
        ".netrc": "default login user password of-the-user\n",
        "none.pem": "",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    out = SETTINGS | dict.fromkeys(ADDRESSES, elsewhere) | dict.fromkeys(TRUST, str(home / "none.pem"))
    return out | {"HOME": str(home), "no_proxy": "", "NO_PROXY": "", "FSSPEC_S3": json.dumps(fsspec["s3"])}
