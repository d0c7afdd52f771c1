"""Single small objects, read and written through boto3 (level 2, measuring side)."""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from storelab.stores.mistakes import code, explain

ABSENT = {"NoSuchKey", "NoSuchBucket", "404"}


def read(s3: Any, bucket: str, key: str, place: str) -> bytes | None:
    """The whole object, None where it or its bucket is absent. Raises what `mistakes.explain` makes of other errors."""
    try:
        return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except (ClientError, BotoCoreError) as error:
        if code(error) in ABSENT:
            return None
        raise explain(error, place) from None


def write(s3: Any, bucket: str, key: str, data: bytes, place: str) -> None:
    """Raises what `mistakes.explain` makes of errors."""
    try:
        s3.put_object(Bucket=bucket, Key=key, Body=data)
    except (ClientError, BotoCoreError) as error:
        raise explain(error, place) from None
