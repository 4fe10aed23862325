"""Rehearses a deployment: the real template in a local AWS, called over its own HTTP API. See docs/rehearse.md."""

import argparse
import contextlib
import pathlib
import re
import signal
import sys
import tempfile

import behind
import books
import deploy
import issuer
import processes
import routes
import sale
from api import Api
from report import Report

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG_LINES_SHOWN = 40


def arguments():
    parser = argparse.ArgumentParser(prog="make rehearse ARGS=…", description=__doc__)
    parser.add_argument("--sam-venv", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="build without optimising much, in a folder apart")
    parser.add_argument("--no-build", action="store_true", help="deploy what was built last, the same way")
    return parser.parse_args()


def deployed(report, args, aws, cloud, token_issuer, redis):
    """The stack and its HTTP API. Answers how to call it."""
    names = cloud.prepare(redis)
    built = deploy.BUILT_QUICKLY if args.quick else deploy.BUILT
    report.ok(f"sam deploy took {cloud.deploy(args.sam_venv, built, token_issuer, redis, names):.0f} s: "
              f"{len(cloud.resources)} resources, {deploy.architecture()}")
    api, made = routes.make(cloud)
    scoped = {key for key, scopes in made.items() if scopes}
    public = sorted(key for key, scopes in made.items() if scopes is None)
    report.say("otherwise than on AWS: the routes are made here, from the expanded template")
    report.same(f"of {len(made)} routes those of operators need their scope, and no other",
                scoped, {key for key in made if "/v1/admin/" in key})
    report.same("only these are open to everybody", public,
                ["GET /v1/activities/{activity}", "POST /v1/payments/webhook"])
    return Api(aws, api, token_issuer, cloud.webhook_secret)


def rehearse(report, cloud, api, redis):
    """Everything that is checked, in the order that wastes the least time waiting."""
    report.step("Who is let in", sale.doors, report, api)
    report.step("Queue and schedules as deployed", behind.hurry, report, cloud)
    begun = report.step("Begun now, looked at later", behind.begin, report, cloud, api)
    report.step("A burst for scarce stock", sale.burst, report, api, redis)
    report.step("Lives of orders", sale.lives, report, api)
    report.step("Operators", sale.operating, report, api)
    report.step("An order that was admitted and never committed", behind.lost_commit, report, cloud, api)
    report.step("Dead letters", behind.dead_letters, report, cloud)
    if begun:
        report.step("Schedules", behind.schedules, report, cloud, api, begun)
        report.step("Late money", behind.late_money, report, api, begun)
    activities = ["rush", "lives", "late", "uneven", "lost", "over"]
    report.step("Reconciliation", books.reconciled, report, api, activities)
    report.step("Sums", books.sums, report, cloud)
    report.step("Audit trail", books.trail, report, cloud)
    report.step("Order events", books.events, report, cloud)
    report.step("Unreadable stream record", books.unreadable, report, cloud)
    report.step("Metrics", books.metrics, report, cloud, api)
    report.step("Traces", books.traced, report, cloud, api)
    report.step("Logs", books.quiet, report, cloud)


def show_logs(cloud, aws):
    """What helps to understand a failure: the last warnings and errors of the functions and of ministack."""
    with contextlib.suppress(Exception):
        print("\nThe functions' last warnings and errors:")
        for event in [each for each in cloud.logged() if each.get("level") in ("WARN", "ERROR")][-LOG_LINES_SHOWN:]:
            print(f"     {event}")
    print("\nministack's last warnings and errors:")
    lines = pathlib.Path(aws.log).read_text(encoding="utf-8", errors="replace").splitlines()
    for line in [each for each in lines if re.match(r"[-\d]+ [:\d]+ (WARNING|ERROR) ", each)][-LOG_LINES_SHOWN:]:
        print(f"     {line[:400]}")


def deaf():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def main():
    args, report = arguments(), Report()
    # Like Ctrl-C: everything that was started is ended on the way out.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    if not args.no_build:
        report.step("Build", lambda: report.ok(f"sam build took {deploy.build(args.sam_venv, args.quick):.0f} s"))
    if report.failures:
        return report.summary()
    ministack = pathlib.Path(sys.executable).parent / "ministack"
    with tempfile.TemporaryDirectory(prefix="holdfast-rehearsal-") as folder, contextlib.ExitStack() as stack:
        token_issuer, certificate = stack.enter_context(issuer.issuing(folder))
        redis = stack.enter_context(processes.redis(folder))
        aws = stack.enter_context(processes.ministack(str(ministack), folder, certificate))
        # The first thing on the way out: nothing may cut the ending of the servers short.
        stack.callback(deaf)
        cloud = deploy.Cloud(aws)
        api = report.step("Deploy", deployed, report, args, aws, cloud, token_issuer, redis)
        if api:
            rehearse(report, cloud, api, redis)
        if report.failures:
            show_logs(cloud, aws)
    return report.summary()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted; everything that was started here is ended")
        sys.exit(130)
