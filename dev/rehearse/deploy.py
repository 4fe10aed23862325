"""Builds the functions and deploys the real template with SAM, as `make deploy` does, into the local AWS."""

import base64
import json
import os
import platform
import secrets
import subprocess
import time

import boto3
from boto3.dynamodb.types import TypeDeserializer

from issuer import AUDIENCE, OPERATOR_SCOPE
from processes import REGION
from report import Failed

STACK, BUCKET = "holdfast", "holdfast-rehearsal"
BUILT = ".aws-sam/build/template.yaml"
ARCHITECTURES = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def architecture():
    """This machine's, in the template's words: the functions run here as they are."""
    return ARCHITECTURES[platform.machine()]


def sam(sam_venv, arguments, env):
    """Runs SAM; its output is shown only where it fails."""
    env = {**env, "PATH": f"{sam_venv}/bin:{os.environ['PATH']}", "SAM_CLI_TELEMETRY": "0"}
    began = time.monotonic()
    done = subprocess.run(
        [f"{sam_venv}/bin/sam", *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )
    if done.returncode != 0:
        print(done.stdout, flush=True)
        raise Failed(f"sam {arguments[0]} ended with status {done.returncode}")
    return time.monotonic() - began


def build(sam_venv):
    """Seconds it took. The environment is the caller's: cargo needs it."""
    return sam(sam_venv, ["build", "--parameter-overrides", f"Architecture={architecture()}"], dict(os.environ))


class Cloud:
    """The local AWS as an operator with all rights sees it, and what was deployed there."""

    def __init__(self, aws):
        def client(service):
            return boto3.client(
                service, endpoint_url=aws.url, region_name=REGION, aws_access_key_id="test",
                aws_secret_access_key="test",
            )

        self.aws = aws
        self.cloudformation, self.s3, self.secretsmanager = map(client, ("cloudformation", "s3", "secretsmanager"))
        self.lambdas, self.sqs, self.dynamodb = map(client, ("lambda", "sqs", "dynamodb"))
        self.gateway, self.events, self.logs = map(client, ("apigatewayv2", "events", "logs"))
        self.webhook_secret = secrets.token_bytes(32)
        self.resources, self.outputs, self.parameters = {}, {}, {}

    def prepare(self, redis):
        """What has to be there before the stack: a bucket for its files, and the secrets. Answers their ARNs."""
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        values = {
            "token-keys": "1:" + base64.b64encode(secrets.token_bytes(32)).decode(),
            "webhook-secrets": base64.b64encode(self.webhook_secret).decode(),
            "redis-password": redis.password,
        }
        return {
            name: self.secretsmanager.create_secret(Name=f"holdfast/{name}", SecretString=value)["ARN"]
            for name, value in values.items()
        }

    def deploy(self, sam_venv, issuer, redis, arns):
        """Seconds it took. Parameters that the template does not have are left out by SAM."""
        parameters = {
            "JwtIssuer": issuer.url,
            "JwtAudience": AUDIENCE,
            "OperatorScope": OPERATOR_SCOPE,
            "TokenKeysSecret": arns["token-keys"],
            "WebhookSecretsSecret": arns["webhook-secrets"],
            "RedisUrl": redis.url,
            "RedisCluster": "false",
            "RedisPasswordSecret": arns["redis-password"],
            "Architecture": architecture(),
        }
        took = sam(sam_venv, [
            "deploy", "--template-file", BUILT, "--config-env", "rehearsal", "--stack-name", STACK,
            "--s3-bucket", BUCKET, "--region", REGION, "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset",
            "--no-progressbar", "--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items()),
        ], self.aws.env)
        self.look()
        return took

    def look(self):
        """Reads what the stack consists of."""
        stack = self.cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
        if stack["StackStatus"] != "CREATE_COMPLETE":
            raise Failed(f"the stack is {stack['StackStatus']}: {stack.get('StackStatusReason', '')}")
        self.outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        self.parameters = {each["ParameterKey"]: each["ParameterValue"] for each in stack["Parameters"]}
        pages = self.cloudformation.get_paginator("list_stack_resources").paginate(StackName=STACK)
        self.resources = {
            each["LogicalResourceId"]: (each["ResourceType"], each["PhysicalResourceId"])
            for page in pages for each in page["StackResourceSummaries"]
        }

    def physical(self, logical):
        """The name that the resource got, mostly what `Ref` gives."""
        return self.resources[logical][1]

    def of_type(self, kind):
        return {logical: name for logical, (each, name) in self.resources.items() if each == kind}

    def expanded(self):
        """The template after SAM's transform, as CloudFormation has it."""
        return self.cloudformation.get_template(StackName=STACK, TemplateStage="Processed")["TemplateBody"]

    def queue(self, logical):
        """The queue's URL."""
        return self.physical(logical)

    def depth(self, logical):
        """Messages in the queue, those that are being worked on and delayed ones included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                 "ApproximateNumberOfMessagesDelayed"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue(logical), AttributeNames=names)["Attributes"]
        return sum(int(value) for value in found.values())

    def take_all(self, logical):
        """Reads the queue empty: the bodies."""
        bodies, url = [], self.queue(logical)
        while True:
            messages = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            if not messages:
                return bodies
            for message in messages:
                bodies.append(message["Body"])
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def items(self, logical):
        """All items of a table, as plain values."""
        read = TypeDeserializer().deserialize
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.physical(logical), ConsistentRead=True)
        return [
            {name: read(value) for name, value in item.items()} for page in pages for item in page["Items"]
        ]

    def function(self, logical):
        """The function's configuration as it is deployed."""
        return self.lambdas.get_function_configuration(FunctionName=self.physical(logical))

    def logged(self):
        """What the functions logged so far: the events of their log group that are JSON, oldest first."""
        group, = (name for name in self.of_type("AWS::Logs::LogGroup").values() if name.endswith("/functions"))
        events = []
        for page in self.logs.get_paginator("filter_log_events").paginate(logGroupName=group):
            for event in page["events"]:
                try:
                    events.append(json.loads(event["message"]))
                except ValueError:
                    if "Task timed out" in event["message"]:
                        events.append({"level": "ERROR", "message": event["message"]})
        return [event for event in events if isinstance(event, dict)]
