"""Makes the HTTP API's routes from the expanded template: ministack does not read an OpenAPI body.

Nothing is made up here: routes, functions, authorizer and scopes are what SAM wrote for API Gateway. A route that the
template leaves out is left out here too, and one without an authorizer there has none here.
"""

import json
import re

from report import Failed

METHODS = {"get", "put", "post", "delete", "patch", "head", "options"}


class Resolver:
    """CloudFormation's functions, as far as they are met in an HTTP API's body."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.conditions = {}

    def resolve(self, value):
        if isinstance(value, list):
            return [self.resolve(each) for each in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (name, argument), = value.items()
            if name == "Ref":
                return self.ref(argument)
            if name == "Fn::GetAtt":
                return self.attribute(*(argument.split(".") if isinstance(argument, str) else argument))
            if name == "Fn::Sub":
                return self.sub(argument)
            if name.startswith("Fn::"):
                raise Failed(f"{name} in the API's body is not known to the rehearsal: {argument}")
        return {name: self.resolve(each) for name, each in value.items()}

    def ref(self, name):
        fixed = {"AWS::Partition": "aws", "AWS::Region": self.cloud.lambdas.meta.region_name,
                 "AWS::URLSuffix": "amazonaws.com"}
        if name in fixed:
            return fixed[name]
        if name in self.cloud.parameters:
            return self.cloud.parameters[name]
        return self.cloud.physical(name)

    def attribute(self, logical, name):
        kind, physical = self.cloud.resources[logical]
        if (kind, name) != ("AWS::Lambda::Function", "Arn"):
            raise Failed(f"{logical}.{name} in the API's body is not known to the rehearsal")
        return self.cloud.lambdas.get_function(FunctionName=physical)["Configuration"]["FunctionArn"]

    def sub(self, text):
        def value(match):
            name = match.group(1)
            return self.attribute(*name.split(".")) if "." in name else self.ref(name)

        if not isinstance(text, str):
            raise Failed(f"Fn::Sub with values in the API's body is not known to the rehearsal: {text}")
        return re.sub(r"\$\{([^}]+)}", value, text)


def make(cloud):
    """Makes them. Answers the API's id and, per route, the scopes it needs: None where there is no authorizer."""
    (logical, api), = cloud.of_type("AWS::ApiGatewayV2::Api").items()
    template = cloud.expanded()
    template = json.loads(template) if isinstance(template, str) else template
    body = template["Resources"][logical]["Properties"]["Body"]
    resolver = Resolver(cloud)
    authorizers = {
        name: authorizer(cloud, api, name, resolver.resolve(scheme))
        for name, scheme in body.get("components", {}).get("securitySchemes", {}).items()
    }
    integrations, routes = {}, {}
    for path, operations in body["paths"].items():
        for method, operation in operations.items():
            if method not in METHODS:
                continue
            key = f"{method.upper()} {path}"
            function = resolver.resolve(operation["x-amazon-apigateway-integration"])
            if function["uri"] not in integrations:
                integrations[function["uri"]] = cloud.gateway.create_integration(
                    ApiId=api, IntegrationType="AWS_PROXY", IntegrationUri=function["uri"],
                    PayloadFormatVersion=function["payloadFormatVersion"],
                )["IntegrationId"]
            security = {"AuthorizationType": "NONE"}
            for name, scopes in (each for need in operation.get("security", []) for each in need.items()):
                if name in authorizers:
                    security = {"AuthorizationType": "JWT", "AuthorizerId": authorizers[name],
                                "AuthorizationScopes": resolver.resolve(scopes)}
            cloud.gateway.create_route(
                ApiId=api, RouteKey=key, Target=f"integrations/{integrations[function['uri']]}", **security
            )
            routes[key] = security.get("AuthorizationScopes", [] if "AuthorizerId" in security else None)
    return api, routes


def authorizer(cloud, api, name, scheme):
    made = scheme["x-amazon-apigateway-authorizer"]
    audience = made["jwtConfiguration"]["audience"]
    return cloud.gateway.create_authorizer(
        ApiId=api, Name=name, AuthorizerType=made["type"].upper(), IdentitySource=[made["identitySource"]],
        JwtConfiguration={
            "Issuer": made["jwtConfiguration"]["issuer"],
            # A list parameter is one text with commas here.
            "Audience": audience.split(",") if isinstance(audience, str) else audience,
        },
    )["AuthorizerId"]
