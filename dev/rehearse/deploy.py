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
# Where the functions are built: as they are for AWS, or quickly.
BUILT, BUILT_QUICKLY = ".aws-sam/build", ".aws-sam/quick"
# No link-time optimisation, and all cores for one crate: some minutes instead of half an hour.
QUICK = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
         "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1"}
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


def build(sam_venv, quick):
    """Seconds it took. The environment is the caller's: cargo needs it."""
    arguments, env = ["build", "--parameter-overrides", f"Architecture={architecture()}"], dict(os.environ)
    if quick:
        # A folder of its own: the same crates with other settings would drive each other out of a shared one.
        env |= {**QUICK, "CARGO_TARGET_DIR": env.get("CARGO_TARGET_DIR", "target") + "/rehearsal"}
        arguments += ["--build-dir", BUILT_QUICKLY]
    return sam(sam_venv, arguments, env)


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
        self.resources, self.parameters, self.queues, self.tables = {}, {}, {}, {}

    def prepare(self, redis):
        """What has to be there before the stack: a bucket for its files, and the secrets. Answers their names."""
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        values = {
            "token-keys": "1:" + base64.b64encode(secrets.token_bytes(32)).decode(),
            "webhook-secrets": base64.b64encode(self.webhook_secret).decode(),
            "redis-password": redis.password,
        }
        for name, value in values.items():
            self.secretsmanager.create_secret(Name=f"rehearsal/{name}", SecretString=value)
        return {name: f"rehearsal/{name}" for name in values}

    def deploy(self, sam_venv, built, issuer, redis, names):
        """Deploys what was built into that folder. Seconds it took."""
        parameters = {
            "JwtIssuer": issuer.url,
            "JwtAudience": AUDIENCE,
            "OperatorScope": OPERATOR_SCOPE,
            "TokenKeysSecret": names["token-keys"],
            "WebhookSecretsSecret": names["webhook-secrets"],
            "Redis": "existing",
            "RedisUrl": redis.url,
            "RedisCluster": "false",
            "RedisPasswordSecret": names["redis-password"],
            "Architecture": architecture(),
        }
        took = sam(sam_venv, [
            "deploy", "--template-file", f"{built}/template.yaml", "--config-env", "rehearsal", "--stack-name", STACK,
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
        self.parameters = {each["ParameterKey"]: each["ParameterValue"] for each in stack["Parameters"]}
        pages = self.cloudformation.get_paginator("list_stack_resources").paginate(StackName=STACK)
        self.resources = {
            each["LogicalResourceId"]: (each["ResourceType"], each["PhysicalResourceId"])
            for page in pages for each in page["StackResourceSummaries"]
        }
        # Queues and tables are those that the functions were given.
        relay, rollback = self.variables("Relay"), self.variables("RollBack")
        self.tables = {"orders": relay["HOLDFAST_TABLE"], "audit": relay["HOLDFAST_AUDIT_TABLE"]}
        self.queues = {
            "fulfilment": relay["HOLDFAST_FULFILMENT_QUEUE_URL"],
            "relay-dead": relay["HOLDFAST_DEAD_LETTER_QUEUE_URL"],
            "roll-back": rollback["HOLDFAST_ROLL_BACK_QUEUE_URL"],
        }
        dead = json.loads(self.attributes("roll-back")["RedrivePolicy"])["deadLetterTargetArn"].rsplit(":", 1)[1]
        self.queues["roll-back-dead"] = self.sqs.get_queue_url(QueueName=dead)["QueueUrl"]

    def physical(self, logical):
        """The name that the resource got, mostly what `Ref` gives."""
        return self.resources[logical][1]

    def of_type(self, kind):
        return {logical: name for logical, (each, name) in self.resources.items() if each == kind}

    def expanded(self):
        """The template after SAM's transform, as CloudFormation has it."""
        return self.cloudformation.get_template(StackName=STACK, TemplateStage="Processed")["TemplateBody"]

    def attributes(self, queue):
        return self.sqs.get_queue_attributes(QueueUrl=self.queues[queue], AttributeNames=["All"])["Attributes"]

    def depth(self, queue):
        """Messages in the queue, those that are being worked on and delayed ones included."""
        return sum(int(value) for name, value in self.attributes(queue).items() if name.startswith("ApproximateNumber"))

    def take_all(self, queue):
        """Reads the queue empty: the bodies."""
        bodies, url = [], self.queues[queue]
        while True:
            messages = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            if not messages:
                return bodies
            for message in messages:
                bodies.append(message["Body"])
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def items(self, table):
        """All items of a table, as plain values."""
        read = TypeDeserializer().deserialize
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=self.tables[table], ConsistentRead=True)
        return [
            {name: read(value) for name, value in item.items()} for page in pages for item in page["Items"]
        ]

    def function(self, logical):
        """The function's configuration as it is deployed."""
        return self.lambdas.get_function_configuration(FunctionName=self.physical(logical))

    def variables(self, logical):
        """What the function is given in its environment."""
        return self.function(logical)["Environment"]["Variables"]

    def alias(self, logical):
        """The alias that the function is called by, or None where it is called by its name."""
        arn = self.function(logical)["FunctionArn"]
        for alias in self.of_type("AWS::Lambda::Alias").values():
            if alias.startswith(f"{arn}:"):
                return alias.rsplit(":", 1)[1]
        return None

    def logged(self):
        """What the functions logged so far: the events of their log group that are JSON, oldest first."""
        group = self.function("PlaceOrder")["LoggingConfig"]["LogGroup"]
        events = []
        for page in self.logs.get_paginator("filter_log_events").paginate(logGroupName=group):
            for event in page["events"]:
                try:
                    events.append(json.loads(event["message"]))
                except ValueError:
                    if "Task timed out" in event["message"]:
                        events.append({"level": "ERROR", "message": event["message"]})
        return [event for event in events if isinstance(event, dict)]
