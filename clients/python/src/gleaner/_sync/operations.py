"""Every operation of the API as a method, grouped by area."""

# Made by generate.py; changes are lost.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from .. import models
from .._http import NULL, Body, Id, Time, path
from .transport import Transport


class Area:
    """Operations that belong together."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class Auth(Area):
    """The operations of `auth`."""

    def register(
        self,
        *,
        email: str,
        password: str,
        name: str,
        invite_token: str | None = None,
    ) -> models.LoginView:
        """Makes an account and logs its owner in.

        `POST /api/v1/auth/register`

        Args:
            password: 12 to 256 characters, not the email address, not a common password.
            invite_token: From an invitation to this address; asked for where registration is by invitation.
        """
        answer: models.LoginView = self._transport.json(
            "POST",
            "/api/v1/auth/register",
            body={"email": email, "password": password, "name": name, "inviteToken": invite_token},
        )
        return answer

    def login(self, *, email: str, password: str) -> models.LoginView:
        """Logs in with email address and password.

        `POST /api/v1/auth/login`
        """
        answer: models.LoginView = self._transport.json(
            "POST",
            "/api/v1/auth/login",
            body={"email": email, "password": password},
        )
        return answer

    def refresh_tokens(self, *, refresh_token: str) -> models.TokensView:
        """Replaces a refresh token, which is good once, by a new pair of tokens.

        `POST /api/v1/auth/refresh`
        """
        answer: models.TokensView = self._transport.json(
            "POST",
            "/api/v1/auth/refresh",
            body={"refreshToken": refresh_token},
        )
        return answer

    def logout(self, *, refresh_token: str) -> models.MessageView:
        """Ends the login that a refresh token belongs to.

        `POST /api/v1/auth/logout`
        """
        answer: models.MessageView = self._transport.json(
            "POST",
            "/api/v1/auth/logout",
            body={"refreshToken": refresh_token},
        )
        return answer

    def forgot_password(self, *, email: str) -> models.MessageView:
        """Sends a message with which a forgotten password can be replaced.

        `POST /api/v1/auth/forgot-password`
        """
        answer: models.MessageView = self._transport.json(
            "POST",
            "/api/v1/auth/forgot-password",
            body={"email": email},
        )
        return answer

    def reset_password(self, *, token: str, password: str) -> models.MessageView:
        """Replaces a password with the token that was sent; ends every session of the person.

        `POST /api/v1/auth/reset-password`

        Args:
            token: From the message.
            password: 12 to 256 characters, not the email address, not a common password.
        """
        answer: models.MessageView = self._transport.json(
            "POST",
            "/api/v1/auth/reset-password",
            body={"token": token, "password": password},
        )
        return answer

    def verify_email(self, *, token: str) -> models.MessageView:
        """Verifies an email address with the token that was sent to it.

        `POST /api/v1/auth/verify-email`
        """
        answer: models.MessageView = self._transport.json(
            "POST",
            "/api/v1/auth/verify-email",
            body={"token": token},
        )
        return answer

    def resend_verification(self) -> models.MessageView:
        """Sends a new verification message; earlier ones stop working.

        Any logged-in user or API key.

        `POST /api/v1/auth/resend-verification`
        """
        answer: models.MessageView = self._transport.json(
            "POST",
            "/api/v1/auth/resend-verification",
        )
        return answer

    def get_me(self) -> models.MeView:
        """Says who is calling and what they may do.

        Any logged-in user or API key.

        `GET /api/v1/auth/me`
        """
        answer: models.MeView = self._transport.json(
            "GET",
            "/api/v1/auth/me",
        )
        return answer

    def list_sessions(self) -> models.SessionViewPage:
        """The caller's logins that have not ended, the newest first: never more than 100, all in one answer.

        A user's access token; API keys are refused.

        `GET /api/v1/account/sessions`
        """
        answer: models.SessionViewPage = self._transport.json(
            "GET",
            "/api/v1/account/sessions",
        )
        return answer

    def end_other_sessions(self) -> models.EndedSessionsView:
        """Ends every login of the caller but this one, with every access token and link that was handed out so far. A
        caller with an access token refreshes it.

        A user's access token; API keys are refused.

        `DELETE /api/v1/account/sessions`
        """
        answer: models.EndedSessionsView = self._transport.json(
            "DELETE",
            "/api/v1/account/sessions",
        )
        return answer

    def end_session(self, id: Id) -> None:
        """Ends one of the caller's logins with its tokens, at once.

        A user's access token; API keys are refused.

        `DELETE /api/v1/account/sessions/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/account/sessions/{id}", id=id),
        )


class Orgs(Area):
    """The operations of `orgs`."""

    def create_org(self, *, name: str) -> models.OrgLoginView:
        """Makes an organization that the caller owns, and logs them in to it.

        A user's access token; API keys are refused.

        `POST /api/v1/orgs`
        """
        answer: models.OrgLoginView = self._transport.json(
            "POST",
            "/api/v1/orgs",
            body={"name": name},
        )
        return answer

    def get_org(self) -> models.OrgView:
        """The caller's organization.

        Needs a member of an organization.

        `GET /api/v1/orgs/current`
        """
        answer: models.OrgView = self._transport.json(
            "GET",
            "/api/v1/orgs/current",
        )
        return answer

    def update_org(self, *, name: str) -> models.OrgView:
        """Gives the organization another name.

        Needs a member of an organization, the permission org:write.

        `PATCH /api/v1/orgs/current`
        """
        answer: models.OrgView = self._transport.json(
            "PATCH",
            "/api/v1/orgs/current",
            body={"name": name},
        )
        return answer

    def list_members(self, *, limit: int | None = None, cursor: str | None = None) -> models.MemberViewPage:
        """The organization's members, newest account first.

        Needs a member of an organization, the permission org:read.

        `GET /api/v1/orgs/current/members`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.MemberViewPage = self._transport.json(
            "GET",
            "/api/v1/orgs/current/members",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_members(self, *, page_size: int | None = None) -> Iterator[models.MemberView]:
        """The organization's members, newest account first.

        Gives item after item and asks for the next page when it is needed; `list_members` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_members(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def remove_member(self, user_id: Id) -> None:
        """Ends a membership at once, with every API key that the member made. Anybody may leave.

        Needs a member of an organization.

        `DELETE /api/v1/orgs/current/members/{userId}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/orgs/current/members/{userId}", userId=user_id),
        )

    def update_member(self, user_id: Id, *, role: models.Role) -> models.MemberView:
        """Gives a member another role. Only an owner makes or unmakes owners; the last one stays.

        Needs a member of an organization, the permission org:write.

        `PATCH /api/v1/orgs/current/members/{userId}`
        """
        answer: models.MemberView = self._transport.json(
            "PATCH",
            path("/api/v1/orgs/current/members/{userId}", userId=user_id),
            body={"role": role},
        )
        return answer

    def list_invites(self, *, limit: int | None = None, cursor: str | None = None) -> models.InviteViewPage:
        """Invitations that wait to be accepted, newest first.

        Needs a member of an organization, the permission org:read.

        `GET /api/v1/orgs/current/invites`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.InviteViewPage = self._transport.json(
            "GET",
            "/api/v1/orgs/current/invites",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_invites(self, *, page_size: int | None = None) -> Iterator[models.InviteView]:
        """Invitations that wait to be accepted, newest first.

        Gives item after item and asks for the next page when it is needed; `list_invites` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_invites(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_invite(self, *, email: str, role: models.Role) -> models.InviteView:
        """Sends an invitation to an address; an earlier one to it ends.

        Needs a member of an organization, a verified email address, the permission org:write.

        `POST /api/v1/orgs/current/invites`
        """
        answer: models.InviteView = self._transport.json(
            "POST",
            "/api/v1/orgs/current/invites",
            body={"email": email, "role": role},
        )
        return answer

    def delete_invite(self, id: Id) -> None:
        """Takes an invitation back.

        Needs a member of an organization, the permission org:write.

        `DELETE /api/v1/orgs/current/invites/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/orgs/current/invites/{id}", id=id),
        )

    def accept_invite(self, *, token: str) -> models.OrgLoginView:
        """Makes the caller, who is in no organization, a member of the one that invited them.

        A user's access token; API keys are refused.

        `POST /api/v1/invites/accept`

        Args:
            token: From the message.
        """
        answer: models.OrgLoginView = self._transport.json(
            "POST",
            "/api/v1/invites/accept",
            body={"token": token},
        )
        return answer


class Account(Area):
    """The operations of `account`."""

    def delete_org(self, *, confirm_name: str) -> models.ErasureStartedView:
        """Erases the organization with everything in it. Owners only; it is out of reach at once.

        Needs a member of an organization, an access token, not an API key.

        `DELETE /api/v1/orgs/current`

        Args:
            confirm_name: The organization's name, letter by letter.
        """
        answer: models.ErasureStartedView = self._transport.json(
            "DELETE",
            "/api/v1/orgs/current",
            body={"confirmName": confirm_name},
        )
        return answer

    def request_account_export(self) -> models.ExportRequestedView:
        """Asks for a file of everything held on the caller; kept for a week.

        A user's access token; API keys are refused.

        `POST /api/v1/account/export`
        """
        answer: models.ExportRequestedView = self._transport.json(
            "POST",
            "/api/v1/account/export",
        )
        return answer

    def get_account_export(self, id: Id) -> models.AccountExportView:
        """Where an export stands, and a link to its zip that is good for 15 minutes.

        A user's access token; API keys are refused.

        `GET /api/v1/account/exports/{id}`
        """
        answer: models.AccountExportView = self._transport.json(
            "GET",
            path("/api/v1/account/exports/{id}", id=id),
        )
        return answer

    def delete_account(self, *, password: str | None = None) -> models.ErasureStartedView:
        """Erases the caller's account and whatever tells who they are. Sessions and keys end at once.

        A user's access token; API keys are refused.

        `DELETE /api/v1/account`

        Args:
            password: The caller's password: a token that somebody found erases nobody. Who has signed in through
                the company's provider in the last ten minutes needs none.
        """
        answer: models.ErasureStartedView = self._transport.json(
            "DELETE",
            "/api/v1/account",
            body={"password": password},
        )
        return answer


class ApiKeys(Area):
    """The operations of `api-keys`."""

    def list_api_keys(self, *, limit: int | None = None, cursor: str | None = None) -> models.ApiKeyViewPage:
        """The organization's keys, newest first; never their secrets. Who does not hold org:read sees their own personal
        ones.

        Needs a member of an organization, the permission org:read.

        `GET /api/v1/api-keys`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.ApiKeyViewPage = self._transport.json(
            "GET",
            "/api/v1/api-keys",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_api_keys(self, *, page_size: int | None = None) -> Iterator[models.ApiKeyView]:
        """The organization's keys, newest first; never their secrets. Who does not hold org:read sees their own personal
        ones.

        Gives item after item and asks for the next page when it is needed; `list_api_keys` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_api_keys(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_api_key(
        self,
        *,
        name: str,
        kind: models.KeyKind | None = None,
        permissions: Sequence[Literal["workflows:read", "workflows:write", "jobs:read", "jobs:write", "urls:read", "urls:write", "schedules:read", "schedules:write", "providers:read", "providers:write", "integrations:read", "integrations:write", "bi:read", "bi:write", "agents:read", "agents:write", "analytics:read", "analytics:write", "billing:read", "billing:write", "org:read", "org:write", "audit:read", "audit:write"]] | None = None,
        expires_at: Time | None = None,
    ) -> models.NewApiKeyView:
        """Makes a key. Its secret is in this answer and nowhere else. The organization's needs org:write; a personal one
        any member makes for themselves, signed in.

        Needs a member of an organization, the permission org:write.

        `POST /api/v1/api-keys`

        Args:
            kind: `organization` unless said otherwise; `personal`: the caller's own.
            permissions: What the key allows; all that the caller may do when left out.
            expires_at: When it ends; never when left out.
        """
        answer: models.NewApiKeyView = self._transport.json(
            "POST",
            "/api/v1/api-keys",
            body={"name": name, "kind": kind, "permissions": permissions, "expiresAt": expires_at},
        )
        return answer

    def delete_api_key(self, id: Id) -> None:
        """Ends a key at once. Another's, or the organization's, needs org:write.

        Needs a member of an organization, the permission org:write.

        `DELETE /api/v1/api-keys/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/api-keys/{id}", id=id),
        )


class CliAuth(Area):
    """The operations of `cli-auth`."""

    def start_cli_auth(self, *, hostname: str) -> models.StartedCliAuthView:
        """Begins to ask for an API key for a command line.

        `POST /api/v1/cli-auth/start`

        Args:
            hostname: The machine that the command line runs on; the key is named after it.
        """
        answer: models.StartedCliAuthView = self._transport.json(
            "POST",
            "/api/v1/cli-auth/start",
            body={"hostname": hostname},
        )
        return answer

    def get_cli_auth_info(self, *, user_code: str) -> models.CliAuthView:
        """What a person is asked to approve.

        A user's access token; API keys are refused.

        `GET /api/v1/cli-auth/info`

        Args:
            user_code: Case, spaces and hyphens do not count.
        """
        answer: models.CliAuthView = self._transport.json(
            "GET",
            "/api/v1/cli-auth/info",
            query={"user_code": user_code},
        )
        return answer

    def approve_cli_auth(self, *, user_code: str) -> models.ApprovedCliAuthView:
        """Makes an API key of the caller's organization for the command line that shows this code.

        A user's access token; API keys are refused.

        `POST /api/v1/cli-auth/approve`

        Args:
            user_code: Case, spaces and hyphens do not count.
        """
        answer: models.ApprovedCliAuthView = self._transport.json(
            "POST",
            "/api/v1/cli-auth/approve",
            body={"user_code": user_code},
        )
        return answer

    def poll_cli_auth(self, *, device_code: str) -> models.DeliveredCliAuthView | models.PendingCliAuthView:
        """Asks whether the code was approved; the first answer after that carries the key.

        `POST /api/v1/cli-auth/poll`
        """
        answer: models.DeliveredCliAuthView | models.PendingCliAuthView = self._transport.json(
            "POST",
            "/api/v1/cli-auth/poll",
            body={"device_code": device_code},
        )
        return answer


class Urls(Area):
    """The operations of `urls`."""

    def list_urls(
        self,
        *,
        q: str | None = None,
        tag: Sequence[str] | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        last_status: models.JobStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.UrlViewPage:
        """The registered URLs, newest first.

        Needs a member of an organization, the permission urls:read.

        `GET /api/v1/urls`

        Args:
            q: Part of the normalized URL; the letters A to Z in any case.
            tag: Repeatable; all must match.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.UrlViewPage = self._transport.json(
            "GET",
            "/api/v1/urls",
            query={"q": q, "tag": tag, "domain": domain, "pageType": page_type, "lastStatus": last_status, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_urls(
        self,
        *,
        q: str | None = None,
        tag: Sequence[str] | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        last_status: models.JobStatus | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.UrlView]:
        """The registered URLs, newest first.

        Gives item after item and asks for the next page when it is needed; `list_urls` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_urls(
                q=q,
                tag=tag,
                domain=domain,
                page_type=page_type,
                last_status=last_status,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_urls(self, *, urls: Sequence[models.UrlEntry]) -> models.Registered:
        """Registers up to 10,000 URLs; tags of a known one are merged.

        Needs a member of an organization, the permission urls:write, credits left.

        `POST /api/v1/urls`
        """
        answer: models.Registered = self._transport.json(
            "POST",
            "/api/v1/urls",
            body={"urls": urls},
            is_repeatable=True,
        )
        return answer

    def upload_urls(
        self,
        content: Body,
        *,
        content_type: str,
        content_encoding: str | None = None,
        format: models.UploadFormat | None = None,
        from_line: int | None = None,
    ) -> models.Uploaded:
        """Registers the URLs of a CSV file (text/csv, with a header, or a URL a line) or of NDJSON
        (application/x-ndjson), as it is or in gzip or zstd (Content-Encoding, or application/gzip and
        application/zstd). It is read as it comes.

        Needs a member of an organization, the permission urls:write, credits left.

        `POST /api/v1/urls/upload`

        Args:
            content: The file: bytes, or what gives bytes piece by piece.
            content_type: Its media type.
            content_encoding: `gzip` or `zstd`, where it is packed.
            format: What the body is, where its media type does not say.
            from_line: Lines before this one are passed over, but for a header: to go on with an upload that broke
                off.
        """
        answer: models.Uploaded = self._transport.json(
            "POST",
            "/api/v1/urls/upload",
            query={"format": format, "fromLine": from_line},
            content=content,
            content_type=content_type,
            content_encoding=content_encoding,
            is_repeatable=True,
        )
        return answer

    def list_url_tags(
        self,
        *,
        prefix: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.UrlTagPage:
        """The tags of the registered URLs, in order, with the number of URLs that have each.

        Needs a member of an organization, the permission urls:read.

        `GET /api/v1/urls/tags`

        Args:
            prefix: What the tag begins with, in the same case.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.UrlTagPage = self._transport.json(
            "GET",
            "/api/v1/urls/tags",
            query={"prefix": prefix, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_url_tags(
        self,
        *,
        prefix: str | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.UrlTag]:
        """The tags of the registered URLs, in order, with the number of URLs that have each.

        Gives item after item and asks for the next page when it is needed; `list_url_tags` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_url_tags(
                prefix=prefix,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_url(self, id: Id) -> models.UrlView:
        """One registered URL.

        Needs a member of an organization, the permission urls:read.

        `GET /api/v1/urls/{id}`
        """
        answer: models.UrlView = self._transport.json(
            "GET",
            path("/api/v1/urls/{id}", id=id),
        )
        return answer

    def delete_url(self, id: Id) -> None:
        """Takes a URL from the list; its jobs and results stay.

        Needs a member of an organization, the permission urls:write.

        `DELETE /api/v1/urls/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/urls/{id}", id=id),
        )

    def update_url(
        self,
        id: Id,
        *,
        if_match: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        page_type: models.PageType | None = None,
        workflow_id: Id | None = None,
        site_session_id: Id | None = None,
        clear: Sequence[models.ClearableOfUrl] | None = None,
    ) -> models.UrlView:
        """Changes what hangs on a URL; what is left out stays.

        Needs a member of an organization, the permission urls:write.

        `PATCH /api/v1/urls/{id}`

        Args:
            if_match: Entity tags of the state that the change is meant for.
            tags: All tags from now on; `[]` for none.
            metadata: The whole object from now on, at most 16 KiB of JSON; `{}` for none.
            site_session_id: A site session of the URL's domain: its jobs are sent with it, unless they name
                another one.
            clear: What the URL is to have none of from now on.
        """
        answer: models.UrlView = self._transport.json(
            "PATCH",
            path("/api/v1/urls/{id}", id=id),
            headers={"If-Match": if_match},
            body={"tags": tags, "metadata": metadata, "pageType": page_type, "workflowId": workflow_id, "siteSessionId": site_session_id, "clear": clear},
        )
        return answer

    def update_urls(
        self,
        *,
        ids: Sequence[Id] | None = None,
        filter: models.UrlsChosenBy | None = None,
        cursor: str | None = None,
        add_tags: Sequence[str] | None = None,
        remove_tags: Sequence[str] | None = None,
        page_type: models.PageType | None = None,
        workflow_id: Id | None = None,
        clear: Sequence[models.ClearableOfUrl] | None = None,
    ) -> models.UpdatedUrls:
        """Changes many URLs at once, by their ids or by a filter: go on with nextCursor until it is null.

        Needs a member of an organization, the permission urls:write.

        `POST /api/v1/urls/update`

        Args:
            ids: 1 to 10,000 URLs. Either this or `filter`.
            filter: Every URL that matches all that is given, as in listUrls; at least one member.
            cursor: The `nextCursor` of the same change by the same filter that was not through.
            add_tags: Tags that each has from now on, beside its own.
            remove_tags: Tags that none has any longer.
            clear: What they are to have none of from now on.
        """
        answer: models.UpdatedUrls = self._transport.json(
            "POST",
            "/api/v1/urls/update",
            body={"ids": ids, "filter": filter, "cursor": cursor, "addTags": add_tags, "removeTags": remove_tags, "pageType": page_type, "workflowId": workflow_id, "clear": clear},
        )
        return answer

    def delete_urls(
        self,
        *,
        ids: Sequence[Id] | None = None,
        filter: models.UrlsChosenBy | None = None,
        cursor: str | None = None,
    ) -> models.DeletedUrls:
        """Takes URLs from the list by their ids or by a filter: go on with nextCursor until it is null.

        Needs a member of an organization, the permission urls:write.

        `POST /api/v1/urls/delete`

        Args:
            ids: 1 to 10,000 URLs. Either this or `filter`.
            filter: Every URL that matches all that is given, as in listUrls; at least one member.
            cursor: The `nextCursor` of a deletion by the same filter that was not through.
        """
        answer: models.DeletedUrls = self._transport.json(
            "POST",
            "/api/v1/urls/delete",
            body={"ids": ids, "filter": filter, "cursor": cursor},
        )
        return answer


class Providers(Area):
    """The operations of `providers`."""

    def list_provider_catalog(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AdapterViewPage:
        """Every adapter that can be connected, with what it wants to know.

        Needs a member of an organization, the permission providers:read.

        `GET /api/v1/providers/catalog`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.AdapterViewPage = self._transport.json(
            "GET",
            "/api/v1/providers/catalog",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_provider_catalog(self, *, page_size: int | None = None) -> Iterator[models.AdapterView]:
        """Every adapter that can be connected, with what it wants to know.

        Gives item after item and asks for the next page when it is needed; `list_provider_catalog` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_provider_catalog(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def list_providers(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ProviderViewPage:
        """The connected providers, newest first; never their credentials.

        Needs a member of an organization, the permission providers:read.

        `GET /api/v1/providers`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.ProviderViewPage = self._transport.json(
            "GET",
            "/api/v1/providers",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_providers(self, *, page_size: int | None = None) -> Iterator[models.ProviderView]:
        """The connected providers, newest first; never their credentials.

        Gives item after item and asks for the next page when it is needed; `list_providers` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_providers(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def connect_provider(
        self,
        *,
        adapter: str,
        name: str | None = None,
        credentials: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        base_url: str | None = None,
        credits: Mapping[str, models.NewPrice] | None = None,
        max_concurrency: int | None = None,
        is_enabled: bool | None = None,
    ) -> models.ProviderView:
        """Connects a provider. Its credentials are sealed and never shown again.

        Needs a member of an organization, the permission providers:write.

        `POST /api/v1/providers`

        Args:
            adapter: One of the catalog.
            name: What to call it; the adapter's name when left out.
            base_url: Where a hosted provider is asked instead of at its vendor's address.
            credits: Prices that replace the adapter's own, by tier.
            max_concurrency: Requests at once; as many as jobs run when left out.
            is_enabled: True unless said otherwise.
        """
        answer: models.ProviderView = self._transport.json(
            "POST",
            "/api/v1/providers",
            body={"adapter": adapter, "name": name, "credentials": credentials, "settings": settings, "baseUrl": base_url, "credits": credits, "maxConcurrency": max_concurrency, "isEnabled": is_enabled},
        )
        return answer

    def get_provider(self, id: Id) -> models.ProviderView:
        """One connected provider.

        Needs a member of an organization, the permission providers:read.

        `GET /api/v1/providers/{id}`
        """
        answer: models.ProviderView = self._transport.json(
            "GET",
            path("/api/v1/providers/{id}", id=id),
        )
        return answer

    def disconnect_provider(self, id: Id, *, force: bool | None = None) -> None:
        """Disconnects a provider and forgets its credentials; one that a published workflow asks, only by force.

        Needs a member of an organization, the permission providers:write.

        `DELETE /api/v1/providers/{id}`

        Args:
            force: Also when published workflows ask it; their jobs then take the failure edge there.
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/providers/{id}", id=id),
            query={"force": force},
        )

    def update_provider(
        self,
        id: Id,
        *,
        name: str | None = None,
        credentials: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        base_url: str | None = None,
        credits: Mapping[str, models.NewPrice] | None = None,
        max_concurrency: int | None = None,
        is_enabled: bool | None = None,
    ) -> models.ProviderView:
        """Changes a provider. What is left out stays; settings and credentials are merged.

        Needs a member of an organization, the permission providers:write.

        `PATCH /api/v1/providers/{id}`

        Args:
            base_url: Empty: the vendor's own again.
            credits: Replaces all earlier ones; empty: the adapter's own again.
            max_concurrency: 0: no bound of its own again.
        """
        answer: models.ProviderView = self._transport.json(
            "PATCH",
            path("/api/v1/providers/{id}", id=id),
            body={"name": name, "credentials": credentials, "settings": settings, "baseUrl": base_url, "credits": credits, "maxConcurrency": max_concurrency, "isEnabled": is_enabled},
        )
        return answer

    def test_provider(self, id: Id, *, url: str) -> models.TestView:
        """Fetches one page through a provider and says how it went; ten times a minute. Nothing is kept or charged.

        Needs a member of an organization, the permission providers:write.

        `POST /api/v1/providers/{id}/test`

        Args:
            url: The page to fetch.
        """
        answer: models.TestView = self._transport.json(
            "POST",
            path("/api/v1/providers/{id}/test", id=id),
            body={"url": url},
        )
        return answer


class SiteSessions(Area):
    """The operations of `site-sessions`."""

    def list_site_sessions(
        self,
        *,
        domain: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.SiteSessionViewPage:
        """The site sessions, newest first; never what they consist of.

        Needs a member of an organization, the permission providers:read.

        `GET /api/v1/site-sessions`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.SiteSessionViewPage = self._transport.json(
            "GET",
            "/api/v1/site-sessions",
            query={"domain": domain, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_site_sessions(
        self,
        *,
        domain: str | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.SiteSessionView]:
        """The site sessions, newest first; never what they consist of.

        Gives item after item and asks for the next page when it is needed; `list_site_sessions` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_site_sessions(
                domain=domain,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_site_session(
        self,
        *,
        domain: str,
        kind: models.SiteSessionKind,
        values: Any,
        name: str | None = None,
    ) -> models.SiteSessionView:
        """Keeps cookies or headers for a domain, sealed and never shown again; jobs name it in their options.

        Needs a member of an organization, the permission providers:write.

        `POST /api/v1/site-sessions`

        Args:
            domain: A host or a URL of the site: the session is for its registrable domain, with all hosts under
                that.
            name: What to call it; the domain when left out.
            values: Cookies: a list of objects (`name`, `value`, and where known `domain`, `hostOnly`, `path`,
                `secure`, `httpOnly`, `expires`), as browsers' extensions export it; or as a text the same JSON, a
                cookies.txt, or a `Cookie` header. Headers: an object, or lines as a text.
        """
        answer: models.SiteSessionView = self._transport.json(
            "POST",
            "/api/v1/site-sessions",
            body={"domain": domain, "name": name, "kind": kind, "values": values},
        )
        return answer

    def delete_site_session(self, id: Id) -> None:
        """Forgets a site session; jobs that name it fail without a request.

        Needs a member of an organization, the permission providers:write.

        `DELETE /api/v1/site-sessions/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/site-sessions/{id}", id=id),
        )


class Workflows(Area):
    """The operations of `workflows`."""

    def list_workflows(
        self,
        *,
        status: models.WorkflowStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.WorkflowViewPage:
        """The organization's workflows, newest first; archived ones only when asked for.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/workflows`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.WorkflowViewPage = self._transport.json(
            "GET",
            "/api/v1/workflows",
            query={"status": status, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_workflows(
        self,
        *,
        status: models.WorkflowStatus | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.WorkflowView]:
        """The organization's workflows, newest first; archived ones only when asked for.

        Gives item after item and asks for the next page when it is needed; `list_workflows` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_workflows(
                status=status,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_workflow(self, *, name: str, dag: models.Dag, route: str | None = None) -> models.WorkflowView:
        """Makes a draft. The other operations take its workflowId; its id is that of this version.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/workflows`

        Args:
            route: `*` (every job), `domain:<domain>`, or null: only jobs that name the workflow.
        """
        answer: models.WorkflowView = self._transport.json(
            "POST",
            "/api/v1/workflows",
            body={"name": name, "dag": dag, "route": route},
        )
        return answer

    def create_smart_workflow(
        self,
        *,
        name: str | None = None,
        strategy: models.Strategy | None = None,
        mode: models.Mode | None = None,
        route: str | None = None,
    ) -> models.WorkflowView:
        """Makes and publishes a workflow whose ranking of the connected providers is kept up to date.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/workflows/smart`
        """
        answer: models.WorkflowView = self._transport.json(
            "POST",
            "/api/v1/workflows/smart",
            body={"name": name, "strategy": strategy, "mode": mode, "route": route},
        )
        return answer

    def validate_workflow(self, *, dag: models.Dag) -> models.ValidationView:
        """Everything that is wrong with a graph, without keeping it.

        Needs a member of an organization, the permission workflows:read.

        `POST /api/v1/workflows/validate`
        """
        answer: models.ValidationView = self._transport.json(
            "POST",
            "/api/v1/workflows/validate",
            body={"dag": dag},
            is_repeatable=True,
        )
        return answer

    def get_workflow(self, id: Id) -> models.WorkflowView:
        """A workflow with its newest graph, by its workflowId.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/workflows/{id}`
        """
        answer: models.WorkflowView = self._transport.json(
            "GET",
            path("/api/v1/workflows/{id}", id=id),
        )
        return answer

    def update_workflow(
        self,
        id: Id,
        *,
        if_match: str | None = None,
        name: str | None = None,
        dag: models.Dag | None = None,
    ) -> models.WorkflowView:
        """Makes a new version; on a published workflow it is live at once.

        Needs a member of an organization, the permission workflows:write.

        `PUT /api/v1/workflows/{id}`

        Args:
            if_match: Entity tags of the state that the change is meant for.
        """
        answer: models.WorkflowView = self._transport.json(
            "PUT",
            path("/api/v1/workflows/{id}", id=id),
            headers={"If-Match": if_match},
            body={"name": name, "dag": dag},
        )
        return answer

    def delete_workflow(self, id: Id) -> None:
        """Archives a workflow; its versions stay readable.

        Needs a member of an organization, the permission workflows:write.

        `DELETE /api/v1/workflows/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/workflows/{id}", id=id),
        )

    def clone_workflow(self, id: Id) -> models.WorkflowView:
        """A new draft with the same graph, its own history and no route.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/workflows/{id}/clone`
        """
        answer: models.WorkflowView = self._transport.json(
            "POST",
            path("/api/v1/workflows/{id}/clone", id=id),
        )
        return answer

    def publish_workflow(self, id: Id) -> models.WorkflowView:
        """Makes a workflow live. Its route must be free.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/workflows/{id}/publish`
        """
        answer: models.WorkflowView = self._transport.json(
            "POST",
            path("/api/v1/workflows/{id}/publish", id=id),
        )
        return answer

    def unpublish_workflow(self, id: Id) -> models.WorkflowView:
        """Back to a draft; jobs in flight finish on their version.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/workflows/{id}/unpublish`
        """
        answer: models.WorkflowView = self._transport.json(
            "POST",
            path("/api/v1/workflows/{id}/unpublish", id=id),
        )
        return answer

    def set_workflow_route(self, id: Id, *, route: str | None) -> models.RouteView:
        """For which jobs the workflow stands in.

        Needs a member of an organization, the permission workflows:write.

        `PUT /api/v1/workflows/{id}/routing`

        Args:
            route: `*` (every job), `domain:<domain>`, or null to clear it. Must be there.
        """
        answer: models.RouteView = self._transport.json(
            "PUT",
            path("/api/v1/workflows/{id}/routing", id=id),
            body={"route": NULL if route is None else route},
        )
        return answer

    def list_workflow_versions(
        self,
        id: Id,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.WorkflowViewPage:
        """Every version of a workflow, newest first.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/workflows/{id}/versions`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.WorkflowViewPage = self._transport.json(
            "GET",
            path("/api/v1/workflows/{id}/versions", id=id),
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_workflow_versions(
        self,
        id: Id,
        *,
        page_size: int | None = None,
    ) -> Iterator[models.WorkflowView]:
        """Every version of a workflow, newest first.

        Gives item after item and asks for the next page when it is needed; `list_workflow_versions` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_workflow_versions(
                id,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_workflow_version(self, id: Id, version: str) -> models.WorkflowView:
        """One version of a workflow by its number.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/workflows/{id}/versions/{version}`
        """
        answer: models.WorkflowView = self._transport.json(
            "GET",
            path("/api/v1/workflows/{id}/versions/{version}", id=id, version=version),
        )
        return answer

    def set_smart_mode(self, id: Id, *, mode: models.Mode) -> models.ModeView:
        """Whether a better ranking is applied or suggested; from the next look of the worker on.

        Needs a member of an organization, the permission workflows:write.

        `PUT /api/v1/workflows/{id}/smart/mode`
        """
        answer: models.ModeView = self._transport.json(
            "PUT",
            path("/api/v1/workflows/{id}/smart/mode", id=id),
            body={"mode": mode},
        )
        return answer


class Suggestions(Area):
    """The operations of `suggestions`."""

    def list_suggestions(
        self,
        *,
        workflow_id: Id | None = None,
        status: models.SuggestionStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.SuggestionViewPage:
        """Better rankings for smart workflows in suggest mode, newest first.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/optimization/suggestions`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.SuggestionViewPage = self._transport.json(
            "GET",
            "/api/v1/optimization/suggestions",
            query={"workflowId": workflow_id, "status": status, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_suggestions(
        self,
        *,
        workflow_id: Id | None = None,
        status: models.SuggestionStatus | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.SuggestionView]:
        """Better rankings for smart workflows in suggest mode, newest first.

        Gives item after item and asks for the next page when it is needed; `list_suggestions` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_suggestions(
                workflow_id=workflow_id,
                status=status,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_suggestion(self, id: Id) -> models.SuggestionView:
        """One suggestion with its evidence.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/optimization/suggestions/{id}`
        """
        answer: models.SuggestionView = self._transport.json(
            "GET",
            path("/api/v1/optimization/suggestions/{id}", id=id),
        )
        return answer

    def apply_suggestion(self, id: Id) -> models.SuggestionView:
        """Makes the proposed ranking the workflow's new version.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/optimization/suggestions/{id}/apply`
        """
        answer: models.SuggestionView = self._transport.json(
            "POST",
            path("/api/v1/optimization/suggestions/{id}/apply", id=id),
        )
        return answer

    def dismiss_suggestion(self, id: Id) -> models.SuggestionView:
        """Turns a suggestion down; the same one is not made again.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/optimization/suggestions/{id}/dismiss`
        """
        answer: models.SuggestionView = self._transport.json(
            "POST",
            path("/api/v1/optimization/suggestions/{id}/dismiss", id=id),
        )
        return answer


class Events(Area):
    """The operations of `events`."""

    def list_events(
        self,
        *,
        kind: Sequence[Literal["batch.completed", "benchmark.completed", "crawl.completed", "crawl.failed", "crawl.started", "input.completed", "input.failed", "input.failing", "input.ingested", "job.canceled", "job.failed", "job.queued", "job.started", "job.succeeded", "monitor.error", "monitor.firing", "monitor.no_data", "monitor.ok", "output.disabled", "quota.low", "result.changed", "result.gone", "result.new", "retention.removed", "schedule.completed", "schedule.disabled", "schedule.failed", "schedule.missed", "schedule.skipped", "schedule.started", "schema.drifted", "site_session.expired", "storage.failing", "storage.moved", "storage.recovered", "suggestion.created", "batch.*", "benchmark.*", "crawl.*", "input.*", "job.*", "monitor.*", "output.*", "quota.*", "result.*", "retention.*", "schedule.*", "schema.*", "site_session.*", "storage.*", "suggestion.*"]] | None = None,
        tag: Sequence[str] | None = None,
        domain: str | None = None,
        subject: Id | None = None,
        after: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.EventViewPage:
        """What happened in the organization: a stream of Server-Sent Events, or a list of what is kept, newest first.

        Needs a member of an organization.

        `GET /api/v1/events`

        Args:
            kind: Of these kinds; `job.*` is every kind of events of jobs. Given several times, or as a list with
                commas.
            tag: With all of these tags.
            domain: Of this registrable domain.
            subject: What happened to this one thing: the id of a job, a result, a schedule …
            after: Behind this place in the log. A stream begins there, with 0 at the oldest event that is kept;
                without it, at the present.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.EventViewPage = self._transport.json(
            "GET",
            "/api/v1/events",
            query={"kind": kind, "tag": tag, "domain": domain, "subject": subject, "after": after, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_events(
        self,
        *,
        kind: Sequence[Literal["batch.completed", "benchmark.completed", "crawl.completed", "crawl.failed", "crawl.started", "input.completed", "input.failed", "input.failing", "input.ingested", "job.canceled", "job.failed", "job.queued", "job.started", "job.succeeded", "monitor.error", "monitor.firing", "monitor.no_data", "monitor.ok", "output.disabled", "quota.low", "result.changed", "result.gone", "result.new", "retention.removed", "schedule.completed", "schedule.disabled", "schedule.failed", "schedule.missed", "schedule.skipped", "schedule.started", "schema.drifted", "site_session.expired", "storage.failing", "storage.moved", "storage.recovered", "suggestion.created", "batch.*", "benchmark.*", "crawl.*", "input.*", "job.*", "monitor.*", "output.*", "quota.*", "result.*", "retention.*", "schedule.*", "schema.*", "site_session.*", "storage.*", "suggestion.*"]] | None = None,
        tag: Sequence[str] | None = None,
        domain: str | None = None,
        subject: Id | None = None,
        after: int | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.EventView]:
        """What happened in the organization: a stream of Server-Sent Events, or a list of what is kept, newest first.

        Gives item after item and asks for the next page when it is needed; `list_events` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_events(
                kind=kind,
                tag=tag,
                domain=domain,
                subject=subject,
                after=after,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return


class Jobs(Area):
    """The operations of `jobs`."""

    def list_jobs(
        self,
        *,
        status: models.JobStatus | None = None,
        url_id: Id | None = None,
        schedule_run_id: Id | None = None,
        workflow_id: Id | None = None,
        domain: str | None = None,
        batch_id: Id | None = None,
        tag: Sequence[str] | None = None,
        error: models.Outcome | None = None,
        benchmark_id: Id | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.JobViewPage:
        """The organization's jobs, newest first.

        Needs a member of an organization, the permission jobs:read.

        `GET /api/v1/jobs`

        Args:
            batch_id: The jobs of this batch, or of this schedule's run.
            tag: With all of these tags.
            error: Failed, with this as the outcome of the last attempt.
            benchmark_id: The probes of this benchmark; they are in the list only when it is named.
            from_: Submitted at this moment or later.
            to: Submitted before this moment.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.JobViewPage = self._transport.json(
            "GET",
            "/api/v1/jobs",
            query={"status": status, "urlId": url_id, "scheduleRunId": schedule_run_id, "workflowId": workflow_id, "domain": domain, "batchId": batch_id, "tag": tag, "error": error, "benchmarkId": benchmark_id, "from": from_, "to": to, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_jobs(
        self,
        *,
        status: models.JobStatus | None = None,
        url_id: Id | None = None,
        schedule_run_id: Id | None = None,
        workflow_id: Id | None = None,
        domain: str | None = None,
        batch_id: Id | None = None,
        tag: Sequence[str] | None = None,
        error: models.Outcome | None = None,
        benchmark_id: Id | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.JobView]:
        """The organization's jobs, newest first.

        Gives item after item and asks for the next page when it is needed; `list_jobs` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_jobs(
                status=status,
                url_id=url_id,
                schedule_run_id=schedule_run_id,
                workflow_id=workflow_id,
                domain=domain,
                batch_id=batch_id,
                tag=tag,
                error=error,
                benchmark_id=benchmark_id,
                from_=from_,
                to=to,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def submit_job(
        self,
        *,
        url: str | None = None,
        url_id: Id | None = None,
        workflow_id: Id | None = None,
        page_type: models.PageType | None = None,
        priority: int | None = None,
        options: models.NewOptions | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        external_id: str | None = None,
    ) -> models.JobView:
        """Submits a job; it is durable when the answer comes.

        Needs a member of an organization, the permission jobs:write, credits left.

        `POST /api/v1/jobs`

        Args:
            url: The page; or name a registered one by `urlId`.
            priority: 0 (last) to 9 (first); 5 unless said otherwise.
            metadata: At most 16 KiB of JSON.
            external_id: Unique in the organization: makes a retry safe.
        """
        answer: models.JobView = self._transport.json(
            "POST",
            "/api/v1/jobs",
            body={"url": url, "urlId": url_id, "workflowId": workflow_id, "pageType": page_type, "priority": priority, "options": options, "tags": tags, "metadata": metadata, "externalId": external_id},
        )
        return answer

    def submit_jobs(self, *, jobs: Sequence[models.NewJob], name: str | None = None) -> models.SubmittedJobs:
        """Submits up to 1,000 jobs, all or none.

        Needs a member of an organization, the permission jobs:write, credits left.

        `POST /api/v1/jobs/batch`

        Args:
            name: What people call the batch.
        """
        answer: models.SubmittedJobs = self._transport.json(
            "POST",
            "/api/v1/jobs/batch",
            body={"name": name, "jobs": jobs},
        )
        return answer

    def poll_jobs(self, *, ids: Sequence[Id]) -> models.Polled:
        """Where up to 500 jobs stand.

        Needs a member of an organization, the permission jobs:read.

        `POST /api/v1/jobs/poll`
        """
        answer: models.Polled = self._transport.json(
            "POST",
            "/api/v1/jobs/poll",
            body={"ids": ids},
            is_repeatable=True,
        )
        return answer

    def get_job(self, id: Id) -> models.JobView:
        """One job with its attempts.

        Needs a member of an organization, the permission jobs:read.

        `GET /api/v1/jobs/{id}`
        """
        answer: models.JobView = self._transport.json(
            "GET",
            path("/api/v1/jobs/{id}", id=id),
        )
        return answer

    def get_job_result(self, id: Id) -> models.ResultMetadata | models.PendingView:
        """What came of a job, without its values: sizes, quality and times; 202 while it is being indexed.

        Needs a member of an organization, the permission jobs:read.

        `GET /api/v1/jobs/{id}/result`
        """
        answer: models.ResultMetadata | models.PendingView = self._transport.json(
            "GET",
            path("/api/v1/jobs/{id}/result", id=id),
        )
        return answer

    def cancel_job(self, id: Id) -> models.JobView:
        """Ends a job that has not ended; its credits return.

        Needs a member of an organization, the permission jobs:write.

        `POST /api/v1/jobs/{id}/cancel`
        """
        answer: models.JobView = self._transport.json(
            "POST",
            path("/api/v1/jobs/{id}/cancel", id=id),
        )
        return answer

    def retry_job(self, id: Id) -> models.JobView:
        """A new job that asks for what an ended one asked for.

        Needs a member of an organization, the permission jobs:write, credits left.

        `POST /api/v1/jobs/{id}/retry`
        """
        answer: models.JobView = self._transport.json(
            "POST",
            path("/api/v1/jobs/{id}/retry", id=id),
        )
        return answer

    def get_url_history(
        self,
        id: Id,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.UrlHistoryEntryPage:
        """What happened to a registered URL: its jobs, oldest first, with their results and what those changed.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/urls/{id}/history`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.UrlHistoryEntryPage = self._transport.json(
            "GET",
            path("/api/v1/urls/{id}/history", id=id),
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_url_history(
        self,
        id: Id,
        *,
        page_size: int | None = None,
    ) -> Iterator[models.UrlHistoryEntry]:
        """What happened to a registered URL: its jobs, oldest first, with their results and what those changed.

        Gives item after item and asks for the next page when it is needed; `get_url_history` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.get_url_history(
                id,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def list_batches(
        self,
        *,
        source: models.BatchSource | None = None,
        is_open: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.BatchViewPage:
        """Jobs that were submitted together, newest first.

        Needs a member of an organization, the permission jobs:read.

        `GET /api/v1/batches`

        Args:
            is_open: Those with jobs that have not ended, or that are still being added.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.BatchViewPage = self._transport.json(
            "GET",
            "/api/v1/batches",
            query={"source": source, "isOpen": is_open, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_batches(
        self,
        *,
        source: models.BatchSource | None = None,
        is_open: bool | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.BatchView]:
        """Jobs that were submitted together, newest first.

        Gives item after item and asks for the next page when it is needed; `list_batches` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_batches(
                source=source,
                is_open=is_open,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_batch(self, id: Id) -> models.BatchView:
        """How far the jobs are that one request, or a schedule's run, submitted.

        Needs a member of an organization, the permission jobs:read.

        `GET /api/v1/batches/{id}`
        """
        answer: models.BatchView = self._transport.json(
            "GET",
            path("/api/v1/batches/{id}", id=id),
        )
        return answer

    def cancel_batch(self, id: Id) -> models.BatchView:
        """Ends all jobs of a batch, bit by bit; it takes no more. Asked again, it changes nothing.

        Needs a member of an organization, the permission jobs:write.

        `POST /api/v1/batches/{id}/cancel`
        """
        answer: models.BatchView = self._transport.json(
            "POST",
            path("/api/v1/batches/{id}/cancel", id=id),
            is_repeatable=True,
        )
        return answer

    def retry_batch(self, id: Id) -> models.BatchView:
        """Submits again what failed, each job once, bit by bit, as long as there are credits.

        Needs a member of an organization, the permission jobs:write, credits left.

        `POST /api/v1/batches/{id}/retry`
        """
        answer: models.BatchView = self._transport.json(
            "POST",
            path("/api/v1/batches/{id}/retry", id=id),
        )
        return answer


class Schedules(Area):
    """The operations of `schedules`."""

    def list_schedules(
        self,
        *,
        is_enabled: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ScheduleViewPage:
        """The organization's schedules, newest first.

        Needs a member of an organization, the permission schedules:read.

        `GET /api/v1/schedules`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.ScheduleViewPage = self._transport.json(
            "GET",
            "/api/v1/schedules",
            query={"isEnabled": is_enabled, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_schedules(
        self,
        *,
        is_enabled: bool | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.ScheduleView]:
        """The organization's schedules, newest first.

        Gives item after item and asks for the next page when it is needed; `list_schedules` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_schedules(
                is_enabled=is_enabled,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_schedule(
        self,
        *,
        name: str,
        cron: str,
        timezone: str | None = None,
        workflow_id: Id | None = None,
        tag_filters: Sequence[str] | None = None,
        url_ids: Sequence[Id] | None = None,
        options: models.NewOptions | None = None,
        overlap: models.Overlap | None = None,
        misfire: models.Misfire | None = None,
        catch_up_seconds: int | None = None,
        jitter_seconds: int | None = None,
        is_enabled: bool | None = None,
    ) -> models.ScheduleView:
        """Makes a schedule; it fires from the next tick on.

        Needs a member of an organization, a verified email address, the permission schedules:write.

        `POST /api/v1/schedules`

        Args:
            cron: 5 fields, or 6 with seconds in front, or a short form such as `@hourly`; names, `L`, `W` and `#`
                may be used.
            timezone: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
            workflow_id: The workflow of its jobs; else the URL's own, or the one that is routed there.
            tag_filters: URLs with any of these tags; empty is every URL.
            url_ids: These URLs alone; with `tagFilters` those of them that match.
            options: How the pages are to be fetched, as in submitJob.
            overlap: When the run before has not ended: `skip` unless said otherwise.
            misfire: When ticks were missed: `run_once` unless said otherwise.
            catch_up_seconds: How old a missed tick may be to be made up for; a year unless said otherwise.
            jitter_seconds: Each tick is put off by up to so many seconds, by chance; 0 unless said otherwise.
            is_enabled: True unless said otherwise. Of one that is there it is changed by toggleSchedule.
        """
        answer: models.ScheduleView = self._transport.json(
            "POST",
            "/api/v1/schedules",
            body={"name": name, "cron": cron, "timezone": timezone, "workflowId": workflow_id, "tagFilters": tag_filters, "urlIds": url_ids, "options": options, "overlap": overlap, "misfire": misfire, "catchUpSeconds": catch_up_seconds, "jitterSeconds": jitter_seconds, "isEnabled": is_enabled},
        )
        return answer

    def list_schedule_runs(
        self,
        *,
        run_id: Id | None = None,
        schedule_id: Id | None = None,
        status: models.RunStatus | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.RunViewPage:
        """What became of every tick, newest first.

        Needs a member of an organization, the permission schedules:read.

        `GET /api/v1/schedules/runs`

        Args:
            from_: Only ticks from then on.
            to: Only ticks before then.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.RunViewPage = self._transport.json(
            "GET",
            "/api/v1/schedules/runs",
            query={"runId": run_id, "scheduleId": schedule_id, "status": status, "from": from_, "to": to, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_schedule_runs(
        self,
        *,
        run_id: Id | None = None,
        schedule_id: Id | None = None,
        status: models.RunStatus | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.RunView]:
        """What became of every tick, newest first.

        Gives item after item and asks for the next page when it is needed; `list_schedule_runs` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_schedule_runs(
                run_id=run_id,
                schedule_id=schedule_id,
                status=status,
                from_=from_,
                to=to,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_schedule(self, id: Id) -> models.ScheduleView:
        """One schedule.

        Needs a member of an organization, the permission schedules:read.

        `GET /api/v1/schedules/{id}`
        """
        answer: models.ScheduleView = self._transport.json(
            "GET",
            path("/api/v1/schedules/{id}", id=id),
        )
        return answer

    def update_schedule(
        self,
        id: Id,
        *,
        name: str,
        cron: str,
        if_match: str | None = None,
        timezone: str | None = None,
        workflow_id: Id | None = None,
        tag_filters: Sequence[str] | None = None,
        url_ids: Sequence[Id] | None = None,
        options: models.NewOptions | None = None,
        overlap: models.Overlap | None = None,
        misfire: models.Misfire | None = None,
        catch_up_seconds: int | None = None,
        jitter_seconds: int | None = None,
        is_enabled: bool | None = None,
    ) -> models.ScheduleView:
        """Gives a schedule other terms, all of them: what is left out has its default.

        Needs a member of an organization, the permission schedules:write.

        `PUT /api/v1/schedules/{id}`

        Args:
            if_match: Entity tags of the state that the change is meant for.
            cron: 5 fields, or 6 with seconds in front, or a short form such as `@hourly`; names, `L`, `W` and `#`
                may be used.
            timezone: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
            workflow_id: The workflow of its jobs; else the URL's own, or the one that is routed there.
            tag_filters: URLs with any of these tags; empty is every URL.
            url_ids: These URLs alone; with `tagFilters` those of them that match.
            options: How the pages are to be fetched, as in submitJob.
            overlap: When the run before has not ended: `skip` unless said otherwise.
            misfire: When ticks were missed: `run_once` unless said otherwise.
            catch_up_seconds: How old a missed tick may be to be made up for; a year unless said otherwise.
            jitter_seconds: Each tick is put off by up to so many seconds, by chance; 0 unless said otherwise.
            is_enabled: True unless said otherwise. Of one that is there it is changed by toggleSchedule.
        """
        answer: models.ScheduleView = self._transport.json(
            "PUT",
            path("/api/v1/schedules/{id}", id=id),
            headers={"If-Match": if_match},
            body={"name": name, "cron": cron, "timezone": timezone, "workflowId": workflow_id, "tagFilters": tag_filters, "urlIds": url_ids, "options": options, "overlap": overlap, "misfire": misfire, "catchUpSeconds": catch_up_seconds, "jitterSeconds": jitter_seconds, "isEnabled": is_enabled},
        )
        return answer

    def delete_schedule(self, id: Id) -> None:
        """Removes a schedule with its runs; their jobs and results stay.

        Needs a member of an organization, the permission schedules:write.

        `DELETE /api/v1/schedules/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/schedules/{id}", id=id),
        )

    def preview_schedule(self, id: Id, *, count: int | None = None) -> models.PreviewView:
        """When a schedule fires next.

        Needs a member of an organization, the permission schedules:read.

        `GET /api/v1/schedules/{id}/preview`

        Args:
            count: 1 to 100; 10 unless said otherwise.
        """
        answer: models.PreviewView = self._transport.json(
            "GET",
            path("/api/v1/schedules/{id}/preview", id=id),
            query={"count": count},
        )
        return answer

    def trigger_schedule(self, id: Id) -> models.TriggerView:
        """Runs a schedule at once, by the way of a tick: its overlap policy holds.

        Needs a member of an organization, the permission schedules:write, credits left.

        `POST /api/v1/schedules/{id}/trigger`
        """
        answer: models.TriggerView = self._transport.json(
            "POST",
            path("/api/v1/schedules/{id}/trigger", id=id),
        )
        return answer

    def toggle_schedule(self, id: Id, *, is_enabled: bool) -> models.ToggleView:
        """Switches a schedule on or off. Switched on it goes on with its cadence; nothing is made up for.

        Needs a member of an organization, a verified email address, the permission schedules:write.

        `PATCH /api/v1/schedules/{id}/toggle`
        """
        answer: models.ToggleView = self._transport.json(
            "PATCH",
            path("/api/v1/schedules/{id}/toggle", id=id),
            body={"isEnabled": is_enabled},
        )
        return answer


class Inputs(Area):
    """The operations of `inputs`."""

    def list_inputs(
        self,
        *,
        kind: models.InputKind | None = None,
        is_enabled: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.InputViewPage:
        """The organization's inputs, newest first.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/inputs`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.InputViewPage = self._transport.json(
            "GET",
            "/api/v1/inputs",
            query={"kind": kind, "isEnabled": is_enabled, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_inputs(
        self,
        *,
        kind: models.InputKind | None = None,
        is_enabled: bool | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.InputView]:
        """The organization's inputs, newest first.

        Gives item after item and asks for the next page when it is needed; `list_inputs` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_inputs(
                kind=kind,
                is_enabled=is_enabled,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_input(
        self,
        *,
        kind: models.InputKind,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        page_type: models.PageType | None = None,
        workflow_id: Id | None = None,
        submit_jobs: bool | None = None,
        is_enabled: bool | None = None,
        signing_secret: str | None = None,
        url: str | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        any_domain: bool | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        start_urls: Sequence[str] | None = None,
        rules: Sequence[models.NewCrawlRule] | None = None,
        depth: int | None = None,
        max_pages: int | None = None,
        revisit_after_seconds: int | None = None,
    ) -> models.InputView:
        """Makes an input. Of a webhook the answer has the address with its token, which is not shown again.

        Needs a member of an organization, the permission integrations:write.

        `POST /api/v1/inputs`

        Args:
            name: What people call it; the host of `url`, or `webhook`, unless said otherwise.
            tags: What its URLs are registered with.
            submit_jobs: Whether URLs become jobs; false unless said otherwise.
            is_enabled: True unless said otherwise. One that is switched off takes nothing and does not run by
                itself.
            signing_secret: A webhook's: messages must be signed with it (Standard Webhooks); `whsec_` and 24 to
                64 bytes in base64. It is never shown.
            url: The document of sitemaps, feeds and CSV files, which they must have.
            include: URLs that are wanted: texts in which `*` stands for anything. Empty: all.
            exclude: URLs that are not, likewise; it goes before `include`.
            any_domain: A sitemap's or crawl's: whether URLs of other registrable domains are meant, too; false
                unless said otherwise.
            cron: When it runs by itself, as of a schedule; only when it is asked for unless said otherwise.
            timezone: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
            start_urls: A crawl's: where it begins. It must have some.
            rules: A crawl's: what is done with links. Without rules every page is kept and its links are
                followed.
            depth: A crawl's: how many links a page may be away from the start; 5 unless said otherwise.
            max_pages: A crawl's: pages that a run asks for at most; 1,000 unless said otherwise.
            revisit_after_seconds: A crawl's: for how long a page that is kept is not asked for again; a week
                unless said otherwise.
        """
        answer: models.InputView = self._transport.json(
            "POST",
            "/api/v1/inputs",
            body={"kind": kind, "name": name, "tags": tags, "pageType": page_type, "workflowId": workflow_id, "submitJobs": submit_jobs, "isEnabled": is_enabled, "signingSecret": signing_secret, "url": url, "include": include, "exclude": exclude, "anyDomain": any_domain, "cron": cron, "timezone": timezone, "startUrls": start_urls, "rules": rules, "depth": depth, "maxPages": max_pages, "revisitAfterSeconds": revisit_after_seconds},
        )
        return answer

    def get_input(self, id: Id) -> models.InputView:
        """One input.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/inputs/{id}`
        """
        answer: models.InputView = self._transport.json(
            "GET",
            path("/api/v1/inputs/{id}", id=id),
        )
        return answer

    def delete_input(self, id: Id) -> None:
        """Removes an input; its URLs, their jobs and results stay. A webhook's token ends.

        Needs a member of an organization, the permission integrations:write.

        `DELETE /api/v1/inputs/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/inputs/{id}", id=id),
        )

    def update_input(
        self,
        id: Id,
        *,
        if_match: str | None = None,
        rotate_token: bool | None = None,
        clear: Sequence[models.ClearableOfInput] | None = None,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        page_type: models.PageType | None = None,
        workflow_id: Id | None = None,
        submit_jobs: bool | None = None,
        is_enabled: bool | None = None,
        signing_secret: str | None = None,
        url: str | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        any_domain: bool | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        start_urls: Sequence[str] | None = None,
        rules: Sequence[models.NewCrawlRule] | None = None,
        depth: int | None = None,
        max_pages: int | None = None,
        revisit_after_seconds: int | None = None,
    ) -> models.InputView:
        """Gives an input other terms; what is left out stays.

        Needs a member of an organization, the permission integrations:write.

        `PATCH /api/v1/inputs/{id}`

        Args:
            if_match: Entity tags of the state that the change is meant for.
            rotate_token: A webhook's: true ends its token; the answer has the new one.
            clear: What the input is to have none of from now on.
            name: What people call it; the host of `url`, or `webhook`, unless said otherwise.
            tags: What its URLs are registered with.
            submit_jobs: Whether URLs become jobs; false unless said otherwise.
            is_enabled: True unless said otherwise. One that is switched off takes nothing and does not run by
                itself.
            signing_secret: A webhook's: messages must be signed with it (Standard Webhooks); `whsec_` and 24 to
                64 bytes in base64. It is never shown.
            url: The document of sitemaps, feeds and CSV files, which they must have.
            include: URLs that are wanted: texts in which `*` stands for anything. Empty: all.
            exclude: URLs that are not, likewise; it goes before `include`.
            any_domain: A sitemap's or crawl's: whether URLs of other registrable domains are meant, too; false
                unless said otherwise.
            cron: When it runs by itself, as of a schedule; only when it is asked for unless said otherwise.
            timezone: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
            start_urls: A crawl's: where it begins. It must have some.
            rules: A crawl's: what is done with links. Without rules every page is kept and its links are
                followed.
            depth: A crawl's: how many links a page may be away from the start; 5 unless said otherwise.
            max_pages: A crawl's: pages that a run asks for at most; 1,000 unless said otherwise.
            revisit_after_seconds: A crawl's: for how long a page that is kept is not asked for again; a week
                unless said otherwise.
        """
        answer: models.InputView = self._transport.json(
            "PATCH",
            path("/api/v1/inputs/{id}", id=id),
            headers={"If-Match": if_match},
            body={"rotateToken": rotate_token, "clear": clear, "name": name, "tags": tags, "pageType": page_type, "workflowId": workflow_id, "submitJobs": submit_jobs, "isEnabled": is_enabled, "signingSecret": signing_secret, "url": url, "include": include, "exclude": exclude, "anyDomain": any_domain, "cron": cron, "timezone": timezone, "startUrls": start_urls, "rules": rules, "depth": depth, "maxPages": max_pages, "revisitAfterSeconds": revisit_after_seconds},
        )
        return answer

    def run_input(self, id: Id, *, full: bool | None = None) -> models.InputRunView:
        """Runs an input at once: its document is asked for, or its site is walked, and its URLs are registered.

        Needs a member of an organization, the permission integrations:write, credits left.

        `POST /api/v1/inputs/{id}/run`

        Args:
            full: Whether all documents are read, also those that are said not to have changed.
        """
        answer: models.InputRunView = self._transport.json(
            "POST",
            path("/api/v1/inputs/{id}/run", id=id),
            body={"full": full},
        )
        return answer

    def list_input_runs(
        self,
        id: Id,
        *,
        status: models.InputRunStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.InputRunViewPage:
        """What became of an input's ticks and runs, newest first.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/inputs/{id}/runs`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.InputRunViewPage = self._transport.json(
            "GET",
            path("/api/v1/inputs/{id}/runs", id=id),
            query={"status": status, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_input_runs(
        self,
        id: Id,
        *,
        status: models.InputRunStatus | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.InputRunView]:
        """What became of an input's ticks and runs, newest first.

        Gives item after item and asks for the next page when it is needed; `list_input_runs` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_input_runs(
                id,
                status=status,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def ingest_urls(
        self,
        token: str,
        *,
        webhook_id: str | None = None,
        webhook_timestamp: str | None = None,
        webhook_signature: str | None = None,
        url: models.UrlEntry | None = None,
        urls: Sequence[models.UrlEntry] | None = None,
    ) -> models.IngestView:
        """Registers the URLs that are sent to a webhook; the token in the path is the credential.

        `POST /api/v1/webhooks/{token}/ingest`

        Args:
            webhook_id: The message's own id, the same when it is sent again. What was taken in under it is not
                taken in again.
            webhook_timestamp: When it was sent, in seconds since 1970.
            webhook_signature: `v1,` and the HMAC-SHA256 of the message, in base64.
        """
        answer: models.IngestView = self._transport.json(
            "POST",
            path("/api/v1/webhooks/{token}/ingest", token=token),
            headers={"webhook-id": webhook_id, "webhook-timestamp": webhook_timestamp, "webhook-signature": webhook_signature},
            body={"url": url, "urls": urls},
        )
        return answer


class Outputs(Area):
    """The operations of `outputs`."""

    def list_outputs(
        self,
        *,
        kind: models.OutputKind | None = None,
        is_enabled: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.OutputViewPage:
        """The organization's outputs, newest first.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/outputs`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.OutputViewPage = self._transport.json(
            "GET",
            "/api/v1/outputs",
            query={"kind": kind, "isEnabled": is_enabled, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_outputs(
        self,
        *,
        kind: models.OutputKind | None = None,
        is_enabled: bool | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.OutputView]:
        """The organization's outputs, newest first.

        Gives item after item and asks for the next page when it is needed; `list_outputs` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_outputs(
                kind=kind,
                is_enabled=is_enabled,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_output(
        self,
        *,
        kind: models.OutputKind,
        events: Sequence[str],
        name: str | None = None,
        url: str | None = None,
        tags: Sequence[str] | None = None,
        domain: str | None = None,
        page_types: Sequence[models.PageType] | None = None,
        condition: str | None = None,
        is_enabled: bool | None = None,
        product: models.ChatProduct | None = None,
        signatures: Sequence[models.SignatureScheme] | None = None,
        secret: str | None = None,
        postgres: models.PostgresOfOutput | None = None,
        files: models.FilesOfOutput | None = None,
        email: models.EmailTerms | None = None,
    ) -> models.OutputView:
        """Makes an output: events are delivered by themselves. The answer has its key, which is not shown again.

        Needs a member of an organization, a verified email address, the permission integrations:write.

        `POST /api/v1/outputs`

        Args:
            name: What people call it; the host of `url`, or `Feed`, unless said otherwise.
            url: A webhook's, and a chat's: the endpoint, which they must have. A chat's is never shown again.
            events: Kinds of events; `job.*` is every one of its subject.
            tags: Only what has all of these tags.
            domain: Only what is of this registrable domain.
            page_types: Only results of these page types, and what tells of them.
            condition: Only what this holds for, such as `price < 100 and changed(price)`.
            is_enabled: True unless said otherwise.
            product: A chat's: whose messages it takes. It must say so.
            signatures: A webhook's: how messages are signed; `v1` unless said otherwise.
            secret: A webhook's: the key of `v1`, where it is known already: `whsec_` and 24 to 64 bytes in
                base64. Else the box makes one.
            postgres: Of the kind `postgres`: the server and the table.
            files: Of the kind `files`: which, and where.
            email: Of the kind `email`: to whom letters go, and when.
        """
        answer: models.OutputView = self._transport.json(
            "POST",
            "/api/v1/outputs",
            body={"kind": kind, "name": name, "url": url, "events": events, "tags": tags, "domain": domain, "pageTypes": page_types, "condition": condition, "isEnabled": is_enabled, "product": product, "signatures": signatures, "secret": secret, "postgres": postgres, "files": files, "email": email},
        )
        return answer

    def preview_output(
        self,
        *,
        events: Sequence[str],
        tags: Sequence[str] | None = None,
        domain: str | None = None,
        page_types: Sequence[models.PageType] | None = None,
        condition: str | None = None,
    ) -> models.DryRunView:
        """Says which of the last 100 events an output of these terms would have delivered; nothing is saved or sent.

        Needs a member of an organization, the permission integrations:write.

        `POST /api/v1/outputs/preview`

        Args:
            events: Kinds of events; `job.*` is every one of its subject.
            tags: Only what has all of these tags.
            domain: Only what is of this registrable domain.
            page_types: Only results of these page types, and what tells of them.
            condition: Only what this holds for.
        """
        answer: models.DryRunView = self._transport.json(
            "POST",
            "/api/v1/outputs/preview",
            body={"events": events, "tags": tags, "domain": domain, "pageTypes": page_types, "condition": condition},
        )
        return answer

    def get_output(self, id: Id) -> models.OutputView:
        """One output.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/outputs/{id}`
        """
        answer: models.OutputView = self._transport.json(
            "GET",
            path("/api/v1/outputs/{id}", id=id),
        )
        return answer

    def delete_output(self, id: Id) -> None:
        """Removes an output with its deliveries and the batches that wait; nothing more is sent. What it has written
        stays: files, objects and tables are the organization's own.

        Needs a member of an organization, the permission integrations:write.

        `DELETE /api/v1/outputs/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/outputs/{id}", id=id),
        )

    def update_output(
        self,
        id: Id,
        *,
        name: str | None = None,
        url: str | None = None,
        events: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        domain: str | None = None,
        page_types: Sequence[models.PageType] | None = None,
        condition: str | None = None,
        is_enabled: bool | None = None,
        product: models.ChatProduct | None = None,
        rotate_secret: bool | None = None,
        postgres: models.PostgresOfOutput | None = None,
        files: models.FilesOfOutput | None = None,
        email: models.EmailTerms | None = None,
        clear: Sequence[models.ClearableOfOutput] | None = None,
    ) -> models.OutputView:
        """Gives an output other terms, or other keys; what is left out stays.

        Needs a member of an organization, the permission integrations:write.

        `PATCH /api/v1/outputs/{id}`

        Args:
            is_enabled: One that is switched on again goes on with what happens from then on; what happened
                meanwhile can be recovered.
            product: A chat's.
            rotate_secret: A webhook's, true: new keys, which the answer has. The old ones sign beside them for
                another 24 hours. A feed's: a new address, and the old one leads nowhere from now on.
            postgres: Of the kind `postgres`: what is to be different about the server and the table.
            files: Of the kind `files`: what is to be different about them.
            email: Of the kind `email`: what is to be different about letters. `recipients` are all of them.
            clear: What the output is to have none of from now on.
        """
        answer: models.OutputView = self._transport.json(
            "PATCH",
            path("/api/v1/outputs/{id}", id=id),
            body={"name": name, "url": url, "events": events, "tags": tags, "domain": domain, "pageTypes": page_types, "condition": condition, "isEnabled": is_enabled, "product": product, "rotateSecret": rotate_secret, "postgres": postgres, "files": files, "email": email, "clear": clear},
        )
        return answer

    def test_output(
        self,
        id: Id,
        *,
        dry_run: bool | None = None,
        condition: str | None = None,
    ) -> models.OutputTestView:
        """Sends a message to see what the endpoint answers; or says which of the last events would be delivered.

        Needs a member of an organization, the permission integrations:write.

        `POST /api/v1/outputs/{id}/test`

        Args:
            dry_run: True: nothing is sent; the answer says which of the last 100 events would be delivered.
            condition: A dry run's: with this condition in place of the output's.
        """
        answer: models.OutputTestView = self._transport.json(
            "POST",
            path("/api/v1/outputs/{id}/test", id=id),
            body={"dryRun": dry_run, "condition": condition},
        )
        return answer

    def list_deliveries(
        self,
        id: Id,
        *,
        state: models.DeliveryState | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.DeliveryViewPage:
        """What became of an output's deliveries, newest first.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/outputs/{id}/deliveries`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.DeliveryViewPage = self._transport.json(
            "GET",
            path("/api/v1/outputs/{id}/deliveries", id=id),
            query={"state": state, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_deliveries(
        self,
        id: Id,
        *,
        state: models.DeliveryState | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.DeliveryView]:
        """What became of an output's deliveries, newest first.

        Gives item after item and asks for the next page when it is needed; `list_deliveries` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_deliveries(
                id,
                state=state,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def redeliver(self, id: Id) -> models.DeliveryView:
        """Tries a delivery anew, under the same id.

        Needs a member of an organization, the permission integrations:write.

        `POST /api/v1/deliveries/{id}/redeliver`
        """
        answer: models.DeliveryView = self._transport.json(
            "POST",
            path("/api/v1/deliveries/{id}/redeliver", id=id),
        )
        return answer

    def recover_deliveries(self, id: Id, *, since: Time) -> models.RecoverView:
        """Delivers what happened since a time and was not delivered: it failed, or the output was off.

        Needs a member of an organization, the permission integrations:write.

        `POST /api/v1/outputs/{id}/recover`
        """
        answer: models.RecoverView = self._transport.json(
            "POST",
            path("/api/v1/outputs/{id}/recover", id=id),
            body={"since": since},
        )
        return answer

    def read_feed(self, token: str, *, format: models.FeedFormat | None = None) -> bytes:
        """A feed's newest 100 events, as RSS 2.0 or Atom. The token in the address is the credential.

        `GET /api/v1/feeds/{token}`
        """
        return self._transport.file(
            path("/api/v1/feeds/{token}", token=token),
            query={"format": format},
        )


class Benchmarks(Area):
    """The operations of `benchmarks`."""

    def list_benchmarks(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.BenchmarkViewPage:
        """The organization's benchmarks, newest first.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/benchmarks`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.BenchmarkViewPage = self._transport.json(
            "GET",
            "/api/v1/benchmarks",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_benchmarks(self, *, page_size: int | None = None) -> Iterator[models.BenchmarkView]:
        """The organization's benchmarks, newest first.

        Gives item after item and asks for the next page when it is needed; `list_benchmarks` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_benchmarks(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def start_benchmark(self, *, urls: Sequence[str]) -> models.BenchmarkView:
        """Lets every connected provider fetch up to 20 URLs. One benchmark at a time.

        Needs a member of an organization, a plan with benchmarks, the permission workflows:write.

        `POST /api/v1/benchmarks`

        Args:
            urls: Those that are no URLs are left out.
        """
        answer: models.BenchmarkView = self._transport.json(
            "POST",
            "/api/v1/benchmarks",
            body={"urls": urls},
        )
        return answer

    def get_latest_benchmark(self) -> models.BenchmarkView:
        """The newest benchmark.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/benchmarks/latest`
        """
        answer: models.BenchmarkView = self._transport.json(
            "GET",
            "/api/v1/benchmarks/latest",
        )
        return answer

    def get_benchmark(self, id: Id) -> models.BenchmarkView:
        """Where a benchmark stands.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/benchmarks/{id}`
        """
        answer: models.BenchmarkView = self._transport.json(
            "GET",
            path("/api/v1/benchmarks/{id}", id=id),
        )
        return answer

    def get_benchmark_results(self, id: Id) -> models.ResultsView:
        """What the probes say so far: by domain, over all, and one by one.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/benchmarks/{id}/results`
        """
        answer: models.ResultsView = self._transport.json(
            "GET",
            path("/api/v1/benchmarks/{id}/results", id=id),
        )
        return answer

    def cancel_benchmark(self, id: Id) -> models.BenchmarkView:
        """Ends a benchmark; probes that have not ended cost nothing.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/benchmarks/{id}/cancel`
        """
        answer: models.BenchmarkView = self._transport.json(
            "POST",
            path("/api/v1/benchmarks/{id}/cancel", id=id),
        )
        return answer

    def generate_workflow(
        self,
        id: Id,
        *,
        name: str | None = None,
        strategy: models.Strategy | None = None,
        mode: models.Mode | None = None,
    ) -> models.WorkflowView:
        """Makes a smart workflow from a completed benchmark, with an order of its own for each domain.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/benchmarks/{id}/generate-workflow`
        """
        answer: models.WorkflowView = self._transport.json(
            "POST",
            path("/api/v1/benchmarks/{id}/generate-workflow", id=id),
            body={"name": name, "strategy": strategy, "mode": mode},
        )
        return answer


class Extraction(Area):
    """The operations of `extraction`."""

    def list_results(
        self,
        *,
        q: str | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        url_id: Id | None = None,
        tag: Sequence[str] | None = None,
        min_quality: float | None = None,
        changed: bool | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        sort: models.SortBy | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ResultList:
        """Lists and searches results.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/results`

        Args:
            q: Full text: words must all match; `"a phrase"`, `-without`, `begin*`, `this OR that`.
            tag: A tag of the job, or one that its URL had when the job ended. May be repeated; all must match.
            min_quality: Composite quality at least, from 0 to 1.
            changed: Only those whose values did (true) or did not (false) change.
            from_: Scraped at or after this time.
            to: Scraped before this time.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.ResultList = self._transport.json(
            "GET",
            "/api/v1/extraction/results",
            query={"q": q, "domain": domain, "pageType": page_type, "urlId": url_id, "tag": tag, "minQuality": min_quality, "changed": changed, "from": from_, "to": to, "sort": sort, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_results(
        self,
        *,
        q: str | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        url_id: Id | None = None,
        tag: Sequence[str] | None = None,
        min_quality: float | None = None,
        changed: bool | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        sort: models.SortBy | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.FoundResult]:
        """Lists and searches results.

        Gives item after item and asks for the next page when it is needed; `list_results` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_results(
                q=q,
                domain=domain,
                page_type=page_type,
                url_id=url_id,
                tag=tag,
                min_quality=min_quality,
                changed=changed,
                from_=from_,
                to=to,
                sort=sort,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_result_by_job(self, job_id: Id) -> models.ResultView | models.PendingView:
        """The result of a job; 202 while it is being indexed.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/results/{jobId}`
        """
        answer: models.ResultView | models.PendingView = self._transport.json(
            "GET",
            path("/api/v1/extraction/results/{jobId}", jobId=job_id),
        )
        return answer

    def get_result(self, id: Id) -> models.ResultView:
        """A result by its own id.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/results/by-id/{id}`
        """
        answer: models.ResultView = self._transport.json(
            "GET",
            path("/api/v1/extraction/results/by-id/{id}", id=id),
        )
        return answer

    def delete_result(self, id: Id) -> None:
        """Deletes a result, and its page unless another result names it. Search and SQL follow within seconds.

        Needs a member of an organization, the permission workflows:write.

        `DELETE /api/v1/extraction/results/by-id/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/extraction/results/by-id/{id}", id=id),
        )

    def get_result_html(self, id: Id) -> models.StoredPageView:
        """A link to a result's page as it was fetched, good for five minutes; it gives a file to save.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/results/by-id/{id}/html`
        """
        answer: models.StoredPageView = self._transport.json(
            "GET",
            path("/api/v1/extraction/results/by-id/{id}/html", id=id),
        )
        return answer

    def diff_results(
        self,
        id: Id,
        *,
        with_: Id | None = None,
        context: int | None = None,
    ) -> models.ResultDiff:
        """How the values of another result, and the words of its page, differ from a result's.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/results/by-id/{id}/diff`

        Args:
            with_: The result to compare with.
            context: Words of an equal text that are shown at each change, 0 to 100,000; 20 unless given.
        """
        answer: models.ResultDiff = self._transport.json(
            "GET",
            path("/api/v1/extraction/results/by-id/{id}/diff", id=id),
            query={"with": with_, "context": context},
        )
        return answer

    def get_extraction_history(
        self,
        *,
        url: str | None = None,
        url_id: Id | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ExtractionHistoryEntryPage:
        """What the results of a URL said one after the other, oldest first.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/history`

        Args:
            url: A URL, registered or not. Either this or `urlId`.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.ExtractionHistoryEntryPage = self._transport.json(
            "GET",
            "/api/v1/extraction/history",
            query={"url": url, "urlId": url_id, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_extraction_history(
        self,
        *,
        url: str | None = None,
        url_id: Id | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.ExtractionHistoryEntry]:
        """What the results of a URL said one after the other, oldest first.

        Gives item after item and asks for the next page when it is needed; `get_extraction_history` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.get_extraction_history(
                url=url,
                url_id=url_id,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_result_content(self, id: Id, *, format: models.ContentFormat | None = None) -> models.ContentView:
        """The main content of a result's page, as Markdown, text or clean HTML.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/results/by-id/{id}/content`

        Args:
            format: `markdown` unless given.
        """
        answer: models.ContentView = self._transport.json(
            "GET",
            path("/api/v1/extraction/results/by-id/{id}/content", id=id),
            query={"format": format},
        )
        return answer

    def delete_results(
        self,
        *,
        ids: Sequence[Id] | None = None,
        filter: models.ResultDeleteFilter | None = None,
        cursor: str | None = None,
    ) -> models.DeletedResults:
        """Deletes results by their ids or by a filter, bit by bit: go on with nextCursor until it is null.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/results/delete`

        Args:
            ids: 1 to 1,000 results. Either this or `filter`.
            filter: Every result that matches all that is given; at least one member.
            cursor: The `nextCursor` of a deletion by the same filter that was not through.
        """
        answer: models.DeletedResults = self._transport.json(
            "POST",
            "/api/v1/extraction/results/delete",
            body={"ids": ids, "filter": filter, "cursor": cursor},
        )
        return answer

    def list_schemas(
        self,
        *,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.SchemaList:
        """Lists the platform's schemas, newest first.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/schemas`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.SchemaList = self._transport.json(
            "GET",
            "/api/v1/extraction/schemas",
            query={"domain": domain, "pageType": page_type, "limit": limit, "cursor": cursor},
        )
        return answer

    def get_schema(self, domain: str, page_type: str) -> models.SchemaView:
        """The newest schema of a page type of a domain.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/schemas/{domain}/{pageType}`
        """
        answer: models.SchemaView = self._transport.json(
            "GET",
            path("/api/v1/extraction/schemas/{domain}/{pageType}", domain=domain, pageType=page_type),
        )
        return answer

    def test_xpath(
        self,
        *,
        domain: str,
        page_type: models.PageType,
        attributes: Sequence[models.AttributeInput],
        job_id: Id | None = None,
    ) -> models.XpathTestView:
        """Tries attributes on a stored page, and says of each XPath what it selects. Nothing is fetched or kept.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/test-xpath`

        Args:
            domain: A registrable domain, or one host of it.
            attributes: At least one.
            job_id: The job on whose page they are tried; else the newest one of the domain with a stored page. An
                answer that is JSON is taken where there is no other, or none of the attributes has XPaths.
        """
        answer: models.XpathTestView = self._transport.json(
            "POST",
            "/api/v1/extraction/test-xpath",
            body={"domain": domain, "pageType": page_type, "attributes": attributes, "jobId": job_id},
            is_repeatable=True,
        )
        return answer

    def list_attributes(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.OwnAttributesViewPage:
        """The organization's own attributes, domain by domain.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/attributes`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.OwnAttributesViewPage = self._transport.json(
            "GET",
            "/api/v1/extraction/attributes",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_attributes(self, *, page_size: int | None = None) -> Iterator[models.OwnAttributesView]:
        """The organization's own attributes, domain by domain.

        Gives item after item and asks for the next page when it is needed; `list_attributes` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_attributes(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_domain_attributes(self, domain: str) -> models.OwnAttributesView:
        """The organization's own attributes for a domain, or for one host of it.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/attributes/{domain}`
        """
        answer: models.OwnAttributesView = self._transport.json(
            "GET",
            path("/api/v1/extraction/attributes/{domain}", domain=domain),
        )
        return answer

    def put_domain_attributes(
        self,
        domain: str,
        *,
        attributes: Sequence[models.OwnAttributeInput],
    ) -> models.OwnAttributesView:
        """Replaces the organization's own attributes for a domain. They hold for pages from now on.

        Needs a member of an organization, the permission workflows:write.

        `PUT /api/v1/extraction/attributes/{domain}`

        Args:
            attributes: All of them: what is not among them is removed.
        """
        answer: models.OwnAttributesView = self._transport.json(
            "PUT",
            path("/api/v1/extraction/attributes/{domain}", domain=domain),
            body={"attributes": attributes},
        )
        return answer

    def add_domain_attribute(
        self,
        domain: str,
        *,
        name: str,
        type: models.AttributeType,
        xpaths: Sequence[str] | None = None,
        json_paths: Sequence[str] | None = None,
        description: str | None = None,
        anti_patterns: Sequence[str] | None = None,
        semantic_type: models.SemanticType | None = None,
        validation: models.ValidationInput | None = None,
        page_type: models.PageType | None = None,
    ) -> models.OwnAttributesView:
        """Adds one attribute to those of a domain.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/attributes/{domain}`

        Args:
            name: Unique within the domain: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at
                most. One that the platform's schema has replaces that one.
            xpaths: XPath 1.0 expressions, tried in order until one yields a value.
            json_paths: JSONPath queries (RFC 9535), tried behind the XPaths, as in a schema. At least one of the
                two.
            type: What the found text is made into.
            anti_patterns: Regular expressions (case-insensitive); a text that matches one is treated as not
                found.
            validation: What a value must satisfy to count as valid.
            page_type: Pages of this type alone; null for pages of every type. A name that is not the platform's
                begins a page type of your own.
        """
        answer: models.OwnAttributesView = self._transport.json(
            "POST",
            path("/api/v1/extraction/attributes/{domain}", domain=domain),
            body={"name": name, "xpaths": xpaths, "jsonPaths": json_paths, "type": type, "description": description, "antiPatterns": anti_patterns, "semanticType": semantic_type, "validation": validation, "pageType": page_type},
        )
        return answer

    def delete_domain_attribute(self, domain: str, name: str) -> None:
        """Removes one of the organization's own attributes; the platform's of its name holds again.

        Needs a member of an organization, the permission workflows:write.

        `DELETE /api/v1/extraction/attributes/{domain}/{name}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/extraction/attributes/{domain}/{name}", domain=domain, name=name),
        )

    def backfill_results(
        self,
        *,
        domain: str,
        page_type: models.PageType,
        result_ids: Sequence[Id] | None = None,
        limit: int | None = None,
    ) -> models.BackfillSummary:
        """Reads stored pages again by the schema and attributes as they are now, some rows a request.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/backfill`

        Args:
            domain: A registrable domain, or one host of it.
            result_ids: 1 to 50 results; without them the next ones that were read by another schema or by other
                attributes, the newest first.
            limit: 1 to 50 rows; 20 unless it is said.
        """
        answer: models.BackfillSummary = self._transport.json(
            "POST",
            "/api/v1/extraction/backfill",
            body={"domain": domain, "pageType": page_type, "resultIds": result_ids, "limit": limit},
        )
        return answer


class Storage(Area):
    """The operations of `storage`."""

    def get_storage(self) -> models.StorageView:
        """Where the organization's pages lie, how much that is, and how a move of them stands.

        Needs a member of an organization, the permission integrations:read.

        `GET /api/v1/storage`
        """
        answer: models.StorageView = self._transport.json(
            "GET",
            "/api/v1/storage",
        )
        return answer

    def put_storage(
        self,
        *,
        kind: models.StorageKind,
        bucket: str | None = None,
        endpoint: str | None = None,
        region: str | None = None,
        prefix: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        path_style: bool | None = None,
        conditional_puts: bool | None = None,
        checksum: models.ChecksumKind | None = None,
    ) -> models.StorageView:
        """Pages are to lie in this storage; those that there are move there by themselves, and can be read meanwhile.

        Needs a member of an organization, the permission integrations:write.

        `PUT /api/v1/storage`

        Args:
            bucket: The name of the bucket, which must exist.
            endpoint: Where the server is, as `https://host:port`; Amazon's own of the region when left out.
                Private addresses are refused unless `network.allow` opens them.
            region: The bucket's region; `us-east-1` when left out, which servers without regions take.
            prefix: What keys begin with, without `/` at its ends.
            secret_access_key: Kept sealed, and never shown. May be left out where the same bucket goes on with
                the same access key.
            path_style: Whether the bucket is named in the path and not in the host: as MinIO and Ceph mostly want
                it. True when an endpoint is given and nothing is said.
            conditional_puts: Whether the server knows `If-None-Match` when it takes an object; true when left
                out.
            checksum: A checksum beside the signature; none when left out, as not every server knows them.
        """
        answer: models.StorageView = self._transport.json(
            "PUT",
            "/api/v1/storage",
            body={"kind": kind, "bucket": bucket, "endpoint": endpoint, "region": region, "prefix": prefix, "accessKeyId": access_key_id, "secretAccessKey": secret_access_key, "pathStyle": path_style, "conditionalPuts": conditional_puts, "checksum": checksum},
        )
        return answer

    def delete_storage(self) -> None:
        """Pages are to lie in the box's own folder again; they come back by themselves.

        Needs a member of an organization, the permission integrations:write.

        `DELETE /api/v1/storage`
        """
        self._transport.json(
            "DELETE",
            "/api/v1/storage",
        )

    def test_storage(
        self,
        *,
        kind: models.StorageKind | None = None,
        bucket: str | None = None,
        endpoint: str | None = None,
        region: str | None = None,
        prefix: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        path_style: bool | None = None,
        conditional_puts: bool | None = None,
        checksum: models.ChecksumKind | None = None,
    ) -> models.ProbeView:
        """Puts, reads, lists and removes an object in a storage, and says which step failed and why: the one given, or
        the one in use.

        Needs a member of an organization, the permission integrations:write.

        `POST /api/v1/storage/test`

        Args:
            bucket: The name of the bucket, which must exist.
            endpoint: Where the server is, as `https://host:port`; Amazon's own of the region when left out.
                Private addresses are refused unless `network.allow` opens them.
            region: The bucket's region; `us-east-1` when left out, which servers without regions take.
            prefix: What keys begin with, without `/` at its ends.
            secret_access_key: Kept sealed, and never shown. May be left out where the same bucket goes on with
                the same access key.
            path_style: Whether the bucket is named in the path and not in the host: as MinIO and Ceph mostly want
                it. True when an endpoint is given and nothing is said.
            conditional_puts: Whether the server knows `If-None-Match` when it takes an object; true when left
                out.
            checksum: A checksum beside the signature; none when left out, as not every server knows them.
        """
        answer: models.ProbeView = self._transport.json(
            "POST",
            "/api/v1/storage/test",
            body={"kind": kind, "bucket": bucket, "endpoint": endpoint, "region": region, "prefix": prefix, "accessKeyId": access_key_id, "secretAccessKey": secret_access_key, "pathStyle": path_style, "conditionalPuts": conditional_puts, "checksum": checksum},
        )
        return answer


class Discovery(Area):
    """The operations of `discovery`."""

    def discover_schema(
        self,
        *,
        domain: str,
        page_type: models.PageType | None = None,
        job_ids: Sequence[Id] | None = None,
        urls: Sequence[str] | None = None,
        sample_size: int | None = None,
    ) -> models.DiscoveryView:
        """Lets the box find out a schema from stored pages of a domain. Nothing is fetched.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/discover`

        Args:
            domain: A registrable domain, or one host of it.
            page_type: Null where the pages are to say what they are.
            job_ids: The jobs whose pages are to teach (20 at most); without them, and without `urls`, the newest
                pages of the domain.
            urls: The same by URLs: the newest stored page of each.
            sample_size: How many pages are to teach, where none are named: 1 to 20.
        """
        answer: models.DiscoveryView = self._transport.json(
            "POST",
            "/api/v1/extraction/discover",
            body={"domain": domain, "pageType": page_type, "jobIds": job_ids, "urls": urls, "sampleSize": sample_size},
        )
        return answer

    def get_discovery(self, id: Id) -> models.DiscoveryView:
        """Where a discovery stands, and what came of it.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/discoveries/{id}`
        """
        answer: models.DiscoveryView = self._transport.json(
            "GET",
            path("/api/v1/extraction/discoveries/{id}", id=id),
        )
        return answer

    def learn_from_examples(
        self,
        *,
        domain: str,
        page_type: models.PageType,
        examples: Sequence[models.LessonExample],
        save: bool | None = None,
    ) -> models.LessonView:
        """Learns attributes from two or more stored pages whose values are told. Nothing is saved unless it is asked
        for.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/learn`

        Args:
            domain: A registrable domain, or one host of it.
            page_type: What saved attributes are for: the first for a type of one's own makes it.
            examples: Two to ten stored pages of the domain.
            save: Puts what was learned beside the organization's own attributes of the domain. One of a name that
                is taken takes its place.
        """
        answer: models.LessonView = self._transport.json(
            "POST",
            "/api/v1/extraction/learn",
            body={"domain": domain, "pageType": page_type, "examples": examples, "save": save},
        )
        return answer

    def propose_xpath(
        self,
        *,
        domain: str,
        page_type: models.PageType,
        job_id: Id,
        element: str,
        text: str | None = None,
        attribute: str | None = None,
        list: bool | None = None,
    ) -> models.XpathWishView:
        """Proposes XPaths for an element of a stored page, with what they give on it and on other stored pages. Nothing
        is kept.

        Needs a member of an organization, the permission workflows:write.

        `POST /api/v1/extraction/propose-xpath`

        Args:
            domain: A registrable domain, or one host of it.
            page_type: The type of the other pages; those of no known type count as well.
            job_id: The job that fetched the page.
            element: An XPath that leads to the element, such as `/html/body/div[2]/p[1]`. The first node that it
                selects is meant.
            text: The element's text. Where the path leads to another one, because a browser has changed the page,
                the element is found by it.
            attribute: The element's attribute that is to be read, such as `href`; null for its text.
            list: Whether all that is like it is wanted, as a list.
        """
        answer: models.XpathWishView = self._transport.json(
            "POST",
            "/api/v1/extraction/propose-xpath",
            body={"domain": domain, "pageType": page_type, "jobId": job_id, "element": element, "text": text, "attribute": attribute, "list": list},
        )
        return answer


class Drift(Area):
    """The operations of `drift`."""

    def list_drift(
        self,
        *,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.DriftPage:
        """How well attributes are found beside their past, and what was mended where a site has changed, by domain and
        page type.

        Needs a member of an organization, the permission workflows:read.

        `GET /api/v1/extraction/drift`

        Args:
            domain: A registrable domain.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.DriftPage = self._transport.json(
            "GET",
            "/api/v1/extraction/drift",
            query={"domain": domain, "pageType": page_type, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_drift(
        self,
        *,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.Drift]:
        """How well attributes are found beside their past, and what was mended where a site has changed, by domain and
        page type.

        Gives item after item and asks for the next page when it is needed; `list_drift` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_drift(
                domain=domain,
                page_type=page_type,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return


class Billing(Area):
    """The operations of `billing`."""

    def list_plans(self, *, limit: int | None = None, cursor: str | None = None) -> models.PlanViewPage:
        """The plans this box knows.

        Needs a member of an organization, the permission billing:read.

        `GET /api/v1/plans`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.PlanViewPage = self._transport.json(
            "GET",
            "/api/v1/plans",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_plans(self, *, page_size: int | None = None) -> Iterator[models.PlanView]:
        """The plans this box knows.

        Gives item after item and asks for the next page when it is needed; `list_plans` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_plans(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_current_plan(self) -> models.CurrentPlanView:
        """The organization's plan and what is left of its credits.

        Needs a member of an organization, the permission billing:read.

        `GET /api/v1/plans/current`
        """
        answer: models.CurrentPlanView = self._transport.json(
            "GET",
            "/api/v1/plans/current",
        )
        return answer

    def list_transactions(
        self,
        *,
        kind: models.TransactionKind | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.TransactionViewPage:
        """The credit ledger, newest first.

        Needs a member of an organization, the permission billing:read.

        `GET /api/v1/plans/transactions`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.TransactionViewPage = self._transport.json(
            "GET",
            "/api/v1/plans/transactions",
            query={"kind": kind, "from": from_, "to": to, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_transactions(
        self,
        *,
        kind: models.TransactionKind | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.TransactionView]:
        """The credit ledger, newest first.

        Gives item after item and asks for the next page when it is needed; `list_transactions` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_transactions(
                kind=kind,
                from_=from_,
                to=to,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def list_recharge_requests(
        self,
        *,
        status: models.RechargeStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.RechargeViewPage:
        """The organization's requests for more credits, newest first.

        Needs a member of an organization, the permission billing:read.

        `GET /api/v1/plans/recharge-requests`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.RechargeViewPage = self._transport.json(
            "GET",
            "/api/v1/plans/recharge-requests",
            query={"status": status, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_recharge_requests(
        self,
        *,
        status: models.RechargeStatus | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.RechargeView]:
        """The organization's requests for more credits, newest first.

        Gives item after item and asks for the next page when it is needed; `list_recharge_requests` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_recharge_requests(
                status=status,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_recharge_request(self, *, credits: int, note: str | None = None) -> models.RechargeView:
        """Asks the operator of the box for more credits.

        Needs a member of an organization, the permission billing:write.

        `POST /api/v1/plans/recharge-requests`

        Args:
            note: What the operator should know.
        """
        answer: models.RechargeView = self._transport.json(
            "POST",
            "/api/v1/plans/recharge-requests",
            body={"credits": credits, "note": note},
        )
        return answer


class Bi(Area):
    """The operations of `bi`."""

    def list_bi_queries(
        self,
        *,
        status: models.QueryStatus | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ExecutionViewPage:
        """Submitted statements, newest first.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/queries`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.ExecutionViewPage = self._transport.json(
            "GET",
            "/api/v1/bi/queries",
            query={"status": status, "from": from_, "to": to, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_bi_queries(
        self,
        *,
        status: models.QueryStatus | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.ExecutionView]:
        """Submitted statements, newest first.

        Gives item after item and asks for the next page when it is needed; `list_bi_queries` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_bi_queries(
                status=status,
                from_=from_,
                to=to,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def submit_bi_query(
        self,
        *,
        sql: str | None = None,
        structured: models.StructuredInput | None = None,
        params: Sequence[Any] | None = None,
        scope_kind: models.ScopeKind | None = None,
        scope_agent_id: Id | None = None,
        dry_run: bool | None = None,
        wait_ms: int | None = None,
    ) -> models.ExecutionView:
        """Runs a query over the organization's tables; 200 when it ended within waitMs, else 202.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `POST /api/v1/bi/queries`

        Args:
            sql: One SELECT; this or `structured` is needed.
            params: The values of the parameters `$1`, `$2` … of `sql`: texts, numbers, truth values or null.
            scope_kind: `org` unless given; `agent` needs `scopeAgentId`.
            scope_agent_id: Only with the scope `agent`.
            dry_run: Plan it and run nothing.
            wait_ms: How long to wait for the end, in milliseconds; 2,000 unless given.
        """
        answer: models.ExecutionView = self._transport.json(
            "POST",
            "/api/v1/bi/queries",
            body={"sql": sql, "structured": structured, "params": params, "scopeKind": scope_kind, "scopeAgentId": scope_agent_id, "dryRun": dry_run, "waitMs": wait_ms},
        )
        return answer

    def get_bi_query(self, id: Id) -> models.ExecutionView:
        """One submitted statement.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/queries/{id}`
        """
        answer: models.ExecutionView = self._transport.json(
            "GET",
            path("/api/v1/bi/queries/{id}", id=id),
        )
        return answer

    def cancel_bi_query(self, id: Id) -> models.CanceledView:
        """Ends a statement that waits or runs; one that has ended stays as it is.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `POST /api/v1/bi/queries/{id}/cancel`
        """
        answer: models.CanceledView = self._transport.json(
            "POST",
            path("/api/v1/bi/queries/{id}/cancel", id=id),
        )
        return answer

    def get_bi_results(
        self,
        id: Id,
        *,
        page: int | None = None,
        page_size: int | None = None,
    ) -> models.ResultPageView:
        """One page of a successful statement's rows.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/queries/{id}/results`

        Args:
            page: Counted from 0.
            page_size: A larger number counts as 1,000.
        """
        answer: models.ResultPageView = self._transport.json(
            "GET",
            path("/api/v1/bi/queries/{id}/results", id=id),
            query={"page": page, "pageSize": page_size},
        )
        return answer

    def get_bi_manifest(self, id: Id, *, page_size: int | None = None) -> models.ManifestEnvelope:
        """How large a result is, how fresh, and how long it is kept.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/queries/{id}/result-manifest`

        Args:
            page_size: A larger number counts as 1,000.
        """
        answer: models.ManifestEnvelope = self._transport.json(
            "GET",
            path("/api/v1/bi/queries/{id}/result-manifest", id=id),
            query={"pageSize": page_size},
        )
        return answer

    def request_bi_export(self, id: Id, *, format: models.ExportFormat) -> models.ExportEnvelope:
        """Makes a file of a successful statement's rows, in the background.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `POST /api/v1/bi/queries/{id}/exports`
        """
        answer: models.ExportEnvelope = self._transport.json(
            "POST",
            path("/api/v1/bi/queries/{id}/exports", id=id),
            body={"format": format},
        )
        return answer

    def get_bi_export(self, id: Id) -> models.ExportEnvelope:
        """Where an export stands, and a link to its file that is good for 15 minutes.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/exports/{id}`
        """
        answer: models.ExportEnvelope = self._transport.json(
            "GET",
            path("/api/v1/bi/exports/{id}", id=id),
        )
        return answer

    def download_bi_export(self, id: Id) -> bytes:
        """The file, whole or from where a download broke off.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/exports/{id}/download`
        """
        return self._transport.file(
            path("/api/v1/bi/exports/{id}/download", id=id),
        )

    def list_bi_tables(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.TableItemViewPage:
        """The tables that a statement can read.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/tables`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.TableItemViewPage = self._transport.json(
            "GET",
            "/api/v1/bi/tables",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_bi_tables(self, *, page_size: int | None = None) -> Iterator[models.TableItemView]:
        """The tables that a statement can read.

        Gives item after item and asks for the next page when it is needed; `list_bi_tables` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_bi_tables(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_bi_table(self, name: str) -> models.TableView:
        """One table with its columns and example values.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/tables/{name}`
        """
        answer: models.TableView = self._transport.json(
            "GET",
            path("/api/v1/bi/tables/{name}", name=name),
        )
        return answer

    def list_saved_queries(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.SavedQueryViewPage:
        """Saved queries, newest first.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/saved-queries`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.SavedQueryViewPage = self._transport.json(
            "GET",
            "/api/v1/bi/saved-queries",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_saved_queries(self, *, page_size: int | None = None) -> Iterator[models.SavedQueryView]:
        """Saved queries, newest first.

        Gives item after item and asks for the next page when it is needed; `list_saved_queries` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_saved_queries(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_saved_query(
        self,
        *,
        name: str,
        description: str | None = None,
        sql: str | None = None,
        structured: models.StructuredInput | None = None,
        source_query_id: Id | None = None,
        scope_kind: models.ScopeKind | None = None,
        scope_agent_id: Id | None = None,
    ) -> models.SavedQueryView:
        """Saves a query under a name that its scope does not have yet.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `POST /api/v1/bi/saved-queries`

        Args:
            name: Unique in the scope.
            sql: One SELECT; this, `structured` or `sourceQueryId` is needed. One that cannot be read is refused;
                whether there are its tables and columns is asked when it is run.
            source_query_id: A query that was submitted, which is saved unless another one is given.
            scope_kind: `org` unless given; `agent` needs `scopeAgentId`.
            scope_agent_id: Only with the scope `agent`.
        """
        answer: models.SavedQueryView = self._transport.json(
            "POST",
            "/api/v1/bi/saved-queries",
            body={"name": name, "description": description, "sql": sql, "structured": structured, "sourceQueryId": source_query_id, "scopeKind": scope_kind, "scopeAgentId": scope_agent_id},
        )
        return answer

    def get_saved_query(self, id: Id) -> models.SavedQueryView:
        """One saved query.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/saved-queries/{id}`
        """
        answer: models.SavedQueryView = self._transport.json(
            "GET",
            path("/api/v1/bi/saved-queries/{id}", id=id),
        )
        return answer

    def delete_saved_query(self, id: Id) -> None:
        """Removes a saved query; what it has run stays.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `DELETE /api/v1/bi/saved-queries/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/bi/saved-queries/{id}", id=id),
        )

    def update_saved_query(
        self,
        id: Id,
        *,
        name: str | None = None,
        description: str | None = None,
        sql: str | None = None,
        structured: models.StructuredInput | None = None,
        scope_kind: models.ScopeKind | None = None,
        scope_agent_id: Id | None = None,
    ) -> models.SavedQueryView:
        """Changes name, description or content; the scope is as it was made.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `PATCH /api/v1/bi/saved-queries/{id}`

        Args:
            description: An empty text removes it.
            scope_kind: Cannot change: only what it is already.
            scope_agent_id: Cannot change: only what it is already.
        """
        answer: models.SavedQueryView = self._transport.json(
            "PATCH",
            path("/api/v1/bi/saved-queries/{id}", id=id),
            body={"name": name, "description": description, "sql": sql, "structured": structured, "scopeKind": scope_kind, "scopeAgentId": scope_agent_id},
        )
        return answer

    def convert_saved_query(self, id: Id) -> models.ConvertedView:
        """A saved structured query as a statement that PostgreSQL takes.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `POST /api/v1/bi/saved-queries/{id}/convert`
        """
        answer: models.ConvertedView = self._transport.json(
            "POST",
            path("/api/v1/bi/saved-queries/{id}/convert", id=id),
        )
        return answer

    def run_saved_query(
        self,
        id: Id,
        *,
        idempotency_key: Id | None = None,
        sql: str | None = None,
        params: Sequence[Any] | None = None,
        wait_ms: int | None = None,
        scope_kind: models.ScopeKind | None = None,
        scope_agent_id: Id | None = None,
    ) -> models.ExecutionView:
        """Runs a saved query, once in 24 hours for each Idempotency-Key; 200 when it ended in time, else 202.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `POST /api/v1/bi/saved-queries/{id}/run`

        Args:
            idempotency_key: A UUID of the caller's choice. The same request under it is carried out once; later
                ones get the first one's answer.
            sql: Another statement to run in its place, in the same scope.
            params: The values of the statement's parameters `$1`, `$2` …: texts, numbers, truth values or null.
            wait_ms: How long to wait for the end, in milliseconds; 2,000 unless given.
            scope_kind: Cannot be chosen: only what the saved query has.
            scope_agent_id: Cannot be chosen: only what the saved query has.
        """
        answer: models.ExecutionView = self._transport.json(
            "POST",
            path("/api/v1/bi/saved-queries/{id}/run", id=id),
            headers={"Idempotency-Key": idempotency_key},
            body={"sql": sql, "params": params, "waitMs": wait_ms, "scopeKind": scope_kind, "scopeAgentId": scope_agent_id},
        )
        return answer


class Dashboards(Area):
    """The operations of `dashboards`."""

    def list_dashboards(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.DashboardViewPage:
        """The organization's dashboards without what they show, newest first.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/dashboards`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.DashboardViewPage = self._transport.json(
            "GET",
            "/api/v1/bi/dashboards",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_dashboards(self, *, page_size: int | None = None) -> Iterator[models.DashboardView]:
        """The organization's dashboards without what they show, newest first.

        Gives item after item and asks for the next page when it is needed; `list_dashboards` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_dashboards(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_dashboard(
        self,
        *,
        name: str,
        description: str | None = None,
        tiles: Sequence[models.NewTile] | None = None,
        parameters: Sequence[models.DashboardParameterInput] | None = None,
        refresh: models.DashboardRefreshInput | None = None,
    ) -> models.DashboardView:
        """Makes a dashboard of saved queries; what its tiles show is made at once, in the background.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `POST /api/v1/bi/dashboards`

        Args:
            name: Unique in the organization.
        """
        answer: models.DashboardView = self._transport.json(
            "POST",
            "/api/v1/bi/dashboards",
            body={"name": name, "description": description, "tiles": tiles, "parameters": parameters, "refresh": refresh},
        )
        return answer

    def get_dashboard(self, id: Id, *, max_age_sec: int | None = None) -> models.DashboardView:
        """One dashboard with what each tile showed last. With maxAgeSec, what is older is made anew in the background.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:read.

        `GET /api/v1/bi/dashboards/{id}`

        Args:
            max_age_sec: What is older than so many seconds is made anew in the background; 10 at least.
        """
        answer: models.DashboardView = self._transport.json(
            "GET",
            path("/api/v1/bi/dashboards/{id}", id=id),
            query={"maxAgeSec": max_age_sec},
        )
        return answer

    def delete_dashboard(self, id: Id) -> None:
        """Removes a dashboard; its saved queries stay.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `DELETE /api/v1/bi/dashboards/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/bi/dashboards/{id}", id=id),
        )

    def update_dashboard(
        self,
        id: Id,
        *,
        name: str | None = None,
        description: str | None = None,
        tiles: Sequence[models.NewTile] | None = None,
        parameters: Sequence[models.DashboardParameterInput] | None = None,
        refresh: models.DashboardRefreshInput | None = None,
        clear: Sequence[models.ClearableOfDashboard] | None = None,
    ) -> models.DashboardView:
        """Gives a dashboard other terms or tiles; what is left out stays. From then on it is made anew with the caller's
        permissions.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `PATCH /api/v1/bi/dashboards/{id}`

        Args:
            description: An empty text removes it.
            tiles: All of them: what is not among them is removed.
            parameters: All of them.
            clear: What the dashboard is to have none of from now on.
        """
        answer: models.DashboardView = self._transport.json(
            "PATCH",
            path("/api/v1/bi/dashboards/{id}", id=id),
            body={"name": name, "description": description, "tiles": tiles, "parameters": parameters, "refresh": refresh, "clear": clear},
        )
        return answer


class Monitors(Area):
    """The operations of `monitors`."""

    def list_monitors(
        self,
        *,
        state: models.MonitorState | None = None,
        is_enabled: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.MonitorViewPage:
        """The organization's monitors, newest first.

        Needs a member of an organization, a plan with sqlConsole, the permission bi:read.

        `GET /api/v1/monitors`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.MonitorViewPage = self._transport.json(
            "GET",
            "/api/v1/monitors",
            query={"state": state, "isEnabled": is_enabled, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_monitors(
        self,
        *,
        state: models.MonitorState | None = None,
        is_enabled: bool | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.MonitorView]:
        """The organization's monitors, newest first.

        Gives item after item and asks for the next page when it is needed; `list_monitors` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_monitors(
                state=state,
                is_enabled=is_enabled,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_monitor(
        self,
        *,
        name: str,
        condition: models.MonitorConditionInput,
        on: models.MonitorOnInput,
        sql: str | None = None,
        saved_query_id: Id | None = None,
        is_enabled: bool | None = None,
    ) -> models.MonitorView:
        """Makes a monitor: it runs once, and from then on by its times or after its schedule's runs.

        Needs a member of an organization, a plan with sqlConsole, a verified email address, the permission bi:write.

        `POST /api/v1/monitors`

        Args:
            sql: One SELECT over the console's tables. This or `savedQueryId`.
            saved_query_id: What is saved under this id whenever it runs, in its scope.
            is_enabled: True unless said otherwise.
        """
        answer: models.MonitorView = self._transport.json(
            "POST",
            "/api/v1/monitors",
            body={"name": name, "sql": sql, "savedQueryId": saved_query_id, "condition": condition, "on": on, "isEnabled": is_enabled},
        )
        return answer

    def get_monitor(self, id: Id) -> models.MonitorView:
        """One monitor, with the state that it is in.

        Needs a member of an organization, a plan with sqlConsole, the permission bi:read.

        `GET /api/v1/monitors/{id}`
        """
        answer: models.MonitorView = self._transport.json(
            "GET",
            path("/api/v1/monitors/{id}", id=id),
        )
        return answer

    def delete_monitor(self, id: Id) -> None:
        """Removes a monitor; its events stay.

        Needs a member of an organization, a plan with sqlConsole, the permission bi:write.

        `DELETE /api/v1/monitors/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/monitors/{id}", id=id),
        )

    def update_monitor(
        self,
        id: Id,
        *,
        name: str | None = None,
        sql: str | None = None,
        saved_query_id: Id | None = None,
        condition: models.MonitorConditionInput | None = None,
        on: models.MonitorOnInput | None = None,
        is_enabled: bool | None = None,
    ) -> models.MonitorView:
        """Gives a monitor other terms, or switches it on or off; what is left out stays. From then on it runs with the
        caller's permissions.

        Needs a member of an organization, a plan with sqlConsole, the permission bi:write.

        `PATCH /api/v1/monitors/{id}`

        Args:
            is_enabled: One that is switched on again runs at once, and goes on from there.
        """
        answer: models.MonitorView = self._transport.json(
            "PATCH",
            path("/api/v1/monitors/{id}", id=id),
            body={"name": name, "sql": sql, "savedQueryId": saved_query_id, "condition": condition, "on": on, "isEnabled": is_enabled},
        )
        return answer


class Agents(Area):
    """The operations of `agents`."""

    def list_agents(self, *, limit: int | None = None, cursor: str | None = None) -> models.AgentViewPage:
        """The organization's conversations, newest first.

        Needs a member of an organization, a plan with agents, the permission agents:read.

        `GET /api/v1/agents`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.AgentViewPage = self._transport.json(
            "GET",
            "/api/v1/agents",
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_agents(self, *, page_size: int | None = None) -> Iterator[models.AgentView]:
        """The organization's conversations, newest first.

        Gives item after item and asks for the next page when it is needed; `list_agents` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_agents(
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def create_agent(self, *, name: str | None = None) -> models.AgentView:
        """Begins a conversation over the data that belong to it.

        Needs a member of an organization, a plan with agents, the permission agents:write.

        `POST /api/v1/agents`

        Args:
            name: "Agent" and when it was made, unless given.
        """
        answer: models.AgentView = self._transport.json(
            "POST",
            "/api/v1/agents",
            body={"name": name},
        )
        return answer

    def get_agent(self, id: Id) -> models.AgentView:
        """One conversation.

        Needs a member of an organization, a plan with agents, the permission agents:read.

        `GET /api/v1/agents/{id}`
        """
        answer: models.AgentView = self._transport.json(
            "GET",
            path("/api/v1/agents/{id}", id=id),
        )
        return answer

    def delete_agent(self, id: Id) -> None:
        """Removes a conversation with its cards; queries that it saved stay, and cannot be run any more.

        Needs a member of an organization, a plan with agents, the permission agents:write.

        `DELETE /api/v1/agents/{id}`
        """
        self._transport.json(
            "DELETE",
            path("/api/v1/agents/{id}", id=id),
        )

    def list_messages(
        self,
        id: Id,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AgentMessageViewPage:
        """What was said, oldest first.

        Needs a member of an organization, a plan with agents, the permission agents:read.

        `GET /api/v1/agents/{id}/messages`

        Args:
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.AgentMessageViewPage = self._transport.json(
            "GET",
            path("/api/v1/agents/{id}/messages", id=id),
            query={"limit": limit, "cursor": cursor},
        )
        return answer

    def iter_messages(self, id: Id, *, page_size: int | None = None) -> Iterator[models.AgentMessageView]:
        """What was said, oldest first.

        Gives item after item and asks for the next page when it is needed; `list_messages` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_messages(
                id,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def send_message(
        self,
        id: Id,
        *,
        text: str | None = None,
        card_id: Id | None = None,
        action_id: str | None = None,
        value: Any = None,
    ) -> models.TurnView:
        """Asks something, or answers a card. Only a click on an offer's Save saves a query.

        Needs a member of an organization, a plan with agents, the permission agents:write.

        `POST /api/v1/agents/{id}/messages`

        Args:
            text: A question in plain words, one SELECT, or the words of an action.
            action_id: One of the card's actions.
            value: The action's own value, as the card has it; may be left out.
        """
        answer: models.TurnView = self._transport.json(
            "POST",
            path("/api/v1/agents/{id}/messages", id=id),
            body={"text": text, "cardId": card_id, "actionId": action_id, "value": value},
        )
        return answer

    def get_agent_cards(self, id: Id) -> models.HistoryView:
        """Every card that was shown and what became of it, in order and in one piece.

        Needs a member of an organization, a plan with agents, the permission agents:read.

        `GET /api/v1/agents/{id}/cards`
        """
        answer: models.HistoryView = self._transport.json(
            "GET",
            path("/api/v1/agents/{id}/cards", id=id),
        )
        return answer


class Analytics(Area):
    """The operations of `analytics`."""

    def get_analytics_overview(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        tag: str | None = None,
    ) -> models.OverviewView:
        """What a period comes to (jobs, results, credits, latency), beside the one before.

        Needs a member of an organization, the permission analytics:read.

        `GET /api/v1/analytics/overview`

        Args:
            from_: A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
            to: Likewise; not in the period any more. Now, unless given.
            timezone: An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC
                unless given.
            tag: Only jobs with this tag; results and attempts have none, and are null then.
        """
        answer: models.OverviewView = self._transport.json(
            "GET",
            "/api/v1/analytics/overview",
            query={"from": from_, "to": to, "timezone": timezone, "domain": domain, "pageType": page_type, "tag": tag},
        )
        return answer

    def get_analytics_timeseries(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        metric: models.Metric | None = None,
        interval: models.Interval | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        tag: str | None = None,
        provider_id: Id | None = None,
    ) -> models.TimeseriesView:
        """One metric over time, in buckets of a zone's clocks and calendar; at most 1,000 of them.

        Needs a member of an organization, the permission analytics:read.

        `GET /api/v1/analytics/timeseries`

        Args:
            from_: A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
            to: Likewise; not in the period any more. Now, unless given.
            timezone: An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC
                unless given.
            metric: `jobs` unless given.
            interval: How long a bucket is; a day unless given.
            tag: Only jobs with this tag; for metrics of jobs.
            provider_id: Jobs that ended with this provider's answer, or its attempts; not for metrics of results.
        """
        answer: models.TimeseriesView = self._transport.json(
            "GET",
            "/api/v1/analytics/timeseries",
            query={"from": from_, "to": to, "timezone": timezone, "metric": metric, "interval": interval, "domain": domain, "pageType": page_type, "tag": tag, "providerId": provider_id},
        )
        return answer

    def get_analytics_providers(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
    ) -> models.ProvidersView:
        """How each provider did: attempts, success, blocks, latency, cost.

        Needs a member of an organization, the permission analytics:read.

        `GET /api/v1/analytics/providers`

        Args:
            from_: A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
            to: Likewise; not in the period any more. Now, unless given.
            timezone: An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC
                unless given.
        """
        answer: models.ProvidersView = self._transport.json(
            "GET",
            "/api/v1/analytics/providers",
            query={"from": from_, "to": to, "timezone": timezone, "domain": domain, "pageType": page_type},
        )
        return answer

    def get_analytics_domains(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        page_type: models.PageType | None = None,
        tag: str | None = None,
        sort: models.DomainSort | None = None,
        order: models.SortOrder | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.DomainsView:
        """The same by domain, sorted, in pages.

        Needs a member of an organization, the permission analytics:read.

        `GET /api/v1/analytics/domains`

        Args:
            from_: A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
            to: Likewise; not in the period any more. Now, unless given.
            timezone: An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC
                unless given.
            tag: Only jobs with this tag; results are counted whatever their jobs' tags.
            sort: `jobs` unless given.
            order: `desc` unless given; what has no value comes last both ways.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.DomainsView = self._transport.json(
            "GET",
            "/api/v1/analytics/domains",
            query={"from": from_, "to": to, "timezone": timezone, "pageType": page_type, "tag": tag, "sort": sort, "order": order, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_analytics_domains(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        page_type: models.PageType | None = None,
        tag: str | None = None,
        sort: models.DomainSort | None = None,
        order: models.SortOrder | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.DomainFiguresView]:
        """The same by domain, sorted, in pages.

        Gives item after item and asks for the next page when it is needed; `get_analytics_domains` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.get_analytics_domains(
                from_=from_,
                to=to,
                timezone=timezone,
                page_type=page_type,
                tag=tag,
                sort=sort,
                order=order,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def get_analytics_credits(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        group_by: models.CreditsBy | None = None,
    ) -> models.CreditsView:
        """Credits by time, as the ledger has them, or by provider or domain.

        Needs a member of an organization, the permission analytics:read.

        `GET /api/v1/analytics/credits`

        Args:
            from_: A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
            to: Likewise; not in the period any more. Now, unless given.
            timezone: An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC
                unless given.
            group_by: `day` unless given.
        """
        answer: models.CreditsView = self._transport.json(
            "GET",
            "/api/v1/analytics/credits",
            query={"from": from_, "to": to, "timezone": timezone, "groupBy": group_by},
        )
        return answer

    def get_analytics_quality(
        self,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        timezone: str | None = None,
        domain: str | None = None,
        page_type: models.PageType | None = None,
        group_by: models.QualityBy | None = None,
    ) -> models.QualityFiguresView:
        """Quality of results by domain and page type, and coverage of attributes.

        Needs a member of an organization, the permission analytics:read.

        `GET /api/v1/analytics/quality`

        Args:
            from_: A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
            to: Likewise; not in the period any more. Now, unless given.
            timezone: An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC
                unless given.
            group_by: `domain` unless given.
        """
        answer: models.QualityFiguresView = self._transport.json(
            "GET",
            "/api/v1/analytics/quality",
            query={"from": from_, "to": to, "timezone": timezone, "domain": domain, "pageType": page_type, "groupBy": group_by},
        )
        return answer


class Audit(Area):
    """The operations of `audit`."""

    def list_audit_logs(
        self,
        *,
        actor: str | None = None,
        action: Literal["user.registered", "user.verified", "auth.login", "auth.login_refused", "auth.login_throttled", "auth.logout", "auth.provider_joined", "auth.token_reused", "auth.verification_sent", "auth.reset_requested", "auth.password_reset", "user.erased", "user.export_requested", "org.created", "org.updated", "org.restore_started", "org.restored", "org.erased", "member.joined", "member.role_changed", "member.removed", "invite.created", "invite.deleted", "api_key.created", "api_key.deleted", "cli_auth.approved", "cli_auth.delivered", "url.created", "url.updated", "url.deleted", "job.submitted", "job.batch_submitted", "job.canceled", "batch.canceled", "batch.retried", "job.retried", "schedule.created", "schedule.updated", "schedule.toggled", "schedule.deleted", "schedule.triggered", "schedule.disabled", "input.created", "input.updated", "input.deleted", "input.triggered", "input.disabled", "output.created", "output.updated", "output.deleted", "output.tested", "output.recovered", "storage.changed", "storage.removed", "storage.tested", "output.disabled", "delivery.repeated", "schedule.missed", "provider.connected", "provider.updated", "provider.disconnected", "site_session.created", "site_session.deleted", "workflow.created", "workflow.updated", "workflow.cloned", "workflow.published", "workflow.unpublished", "workflow.archived", "workflow.routed", "workflow.mode_set", "workflow.optimized", "suggestion.applied", "suggestion.dismissed", "benchmark.started", "benchmark.canceled", "result.deleted", "result.backfilled", "attributes.saved", "log.level_set", "clock.accepted", "discovery.started", "schema.discovered", "schema.repaired", "schema.drifted", "schema.imported", "bi_query.submitted", "bi_query.refused", "bi_query.canceled", "bi_export.requested", "bi.switched_off", "bi.switched_on", "saved_query.created", "saved_query.updated", "saved_query.deleted", "monitor.created", "monitor.updated", "monitor.deleted", "dashboard.created", "dashboard.updated", "dashboard.deleted", "agent.created", "agent.deleted", "agent.asked", "agent.card_resolved", "auth.reset_link_made", "org.plan_changed", "credits.granted", "recharge.requested", "recharge.approved", "recharge.denied", "backup.started", "mail.retried", "access.denied", "audit.pruned"] | None = None,
        resource_type: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AuditLogViewPage:
        """Who did what, newest first. With Accept: application/x-ndjson the whole of it, one line a row, without pages.

        Needs a member of an organization, the permission audit:read.

        `GET /api/v1/audit-logs`

        Args:
            actor: A user's id: what they did, also through their API keys, and refused logins to their account.
                Or a key's id.
            action: user.registered: An account was made. user.verified: The email address of an account was
                verified. auth.login: A person logged in, with their password or through the company's provider (by).
                auth.login_refused: A login was refused: a wrong password, an unknown address, or somebody whom the
                company's provider sent and who may not come in (reason). auth.login_throttled: A login was refused
                because too many had failed before. auth.logout: A person logged out; the login's tokens ended.
                auth.provider_joined: An account was joined with one at the company's provider, which lets the person
                in from then on. auth.token_reused: A refresh token was used a second time; its login ended.
                auth.verification_sent: A verification message was asked for. auth.reset_requested: A message to
                replace a forgotten password was asked for. auth.password_reset: A password was replaced; every login
                of the person ended. user.erased: An account was erased; its id is a pseudonym from then on.
                user.export_requested: A person asked for a file of what is held on them. org.created: An organization
                was made. org.updated: The organization was given another name. org.restore_started: The operator had
                an organization brought back from a backup (backup). org.restored: An organization came back from a
                backup, as it was at that moment; its outputs are switched off. org.erased: An organization was put
                out of reach, to be removed with everything in it. member.joined: A person became a member: by an
                invitation, by the operator, or by their groups at the company's provider (by). member.role_changed: A
                member was given another role. member.removed: A membership ended, with the API keys that the member
                had made. invite.created: A person was invited. invite.deleted: An invitation was taken back.
                api_key.created: An API key was made. api_key.deleted: An API key was ended. cli_auth.approved: A
                command line was approved; an API key was made for it. cli_auth.delivered: The key that was made for a
                command line was handed to it. url.created: URLs were registered, or known ones changed by registering
                them again. url.updated: A URL's tags, metadata, page type, workflow or site session were changed.
                url.deleted: URLs were removed from the list; their results stay. job.submitted: A job was submitted.
                job.batch_submitted: Several jobs were submitted at once. job.canceled: A job was canceled.
                batch.canceled: A batch was canceled, with all of its jobs that had not ended. batch.retried: The
                failed jobs of a batch were to be submitted again. job.retried: An ended job was submitted again.
                schedule.created: A schedule was made. schedule.updated: A schedule was given other terms.
                schedule.toggled: A schedule was switched on or off. schedule.deleted: A schedule was removed with its
                runs; their jobs and results stay. schedule.triggered: A schedule was run at once. schedule.disabled:
                The box found a schedule that it cannot read any more; it does not fire. input.created: A source of
                URLs was made. input.updated: A source of URLs was given other terms. input.deleted: A source of URLs
                was removed with its runs; their URLs, jobs and results stay. input.triggered: A source of URLs was
                run at once. input.disabled: The box switched a source of URLs off: its document is gone for good, or
                its terms cannot be read. output.created: An output was made: events are delivered by themselves.
                output.updated: An output was given other terms, or another key. output.deleted: An output was removed
                with its deliveries. output.tested: A message was sent to an output's endpoint to see what it answers.
                output.recovered: Events of an output from some time on were to be delivered that had not been.
                storage.changed: Pages were to lie in a storage of the organization's own, or it was given other
                terms. storage.removed: Pages were to lie in the box's own folder again. storage.tested: An object was
                put into a storage, read, listed and removed to see whether it works. output.disabled: The box
                switched an output off: its endpoint is gone, or has failed for days. delivery.repeated: A delivery
                was to be tried again. schedule.missed: A schedule's time passed, and the box had decided nothing
                about it. provider.connected: A provider was connected. provider.updated: A connected provider was
                changed. provider.disconnected: A provider was disconnected and its credentials were forgotten.
                site_session.created: Cookies or headers for a site were kept, sealed. site_session.deleted: Cookies
                or headers for a site were forgotten. workflow.created: A workflow was made. workflow.updated: A
                workflow was given a new version. workflow.cloned: A workflow was made as the copy of another.
                workflow.published: A workflow was made live. workflow.unpublished: A workflow was taken out of
                service. workflow.archived: A workflow was archived. workflow.routed: A workflow was given another
                route, or none. workflow.mode_set: Who decides about a smart workflow's ranking was changed.
                workflow.optimized: The optimization worker gave a smart workflow a new version. suggestion.applied: A
                suggested ranking was made a workflow's new version. suggestion.dismissed: A suggested ranking was
                turned down. benchmark.started: A benchmark of the connected providers was started.
                benchmark.canceled: A benchmark was canceled. result.deleted: Results were deleted, with pages that
                only they named. result.backfilled: Stored pages were read again, and what they say put into their
                results. attributes.saved: An organization's own attributes for a domain were changed. log.level_set:
                The operator changed what the box's log shows. clock.accepted: The operator vouched for the machine's
                clock: terms end by what it says. discovery.started: A schema was to be found out from stored pages.
                schema.discovered: The box made a platform schema out of stored pages. schema.repaired: The box gave a
                platform schema other expressions for what its site had outrun. schema.drifted: A site had changed
                under a schema or own attributes; what was found out and mended. schema.imported: The operator
                imported platform schemas. bi_query.submitted: An SQL statement was submitted. bi_query.refused: An
                SQL statement that could not be planned was withdrawn. bi_query.canceled: The end of an SQL statement
                was asked for. bi_export.requested: The rows of an SQL statement were to be made a file.
                bi.switched_off: The operator switched SQL statements off. bi.switched_on: The operator switched SQL
                statements on again. saved_query.created: A query was saved under a name. saved_query.updated: A saved
                query was given another name, description or text. saved_query.deleted: A saved query was removed.
                monitor.created: A monitor was made: a statement is run by itself, and what follows is told.
                monitor.updated: A monitor was given other terms, or switched on or off. monitor.deleted: A monitor
                was removed. dashboard.created: A dashboard was made of saved queries. dashboard.updated: A dashboard
                was given other terms or tiles. dashboard.deleted: A dashboard was removed; its saved queries stay.
                agent.created: A conversation over the data was begun. agent.deleted: A conversation was removed;
                queries that it saved stay. agent.asked: A message was sent to an agent. agent.card_resolved: A card
                of a conversation was answered. auth.reset_link_made: The operator made a link with which a password
                can be replaced. org.plan_changed: The operator put the organization on another plan. credits.granted:
                The operator added credits to the organization's account. recharge.requested: More credits were asked
                for. recharge.approved: The operator approved a request for credits; they were added. recharge.denied:
                The operator denied a request for credits. backup.started: The operator had a backup made of the box.
                mail.retried: The operator let messages be sent again. access.denied: A caller was refused an
                operation: a permission, role or proof was missing. audit.pruned: Audit rows older than the box keeps
                them were removed.
            resource_type: The kind of thing that it was done to, such as `job`.
            from_: At this moment or later.
            to: Before this moment.
            limit: Rows of a page; a larger number counts as 200.
            cursor: The nextCursor of the page before.
        """
        answer: models.AuditLogViewPage = self._transport.json(
            "GET",
            "/api/v1/audit-logs",
            query={"actor": actor, "action": action, "resourceType": resource_type, "from": from_, "to": to, "limit": limit, "cursor": cursor},
        )
        return answer

    def iter_audit_logs(
        self,
        *,
        actor: str | None = None,
        action: Literal["user.registered", "user.verified", "auth.login", "auth.login_refused", "auth.login_throttled", "auth.logout", "auth.provider_joined", "auth.token_reused", "auth.verification_sent", "auth.reset_requested", "auth.password_reset", "user.erased", "user.export_requested", "org.created", "org.updated", "org.restore_started", "org.restored", "org.erased", "member.joined", "member.role_changed", "member.removed", "invite.created", "invite.deleted", "api_key.created", "api_key.deleted", "cli_auth.approved", "cli_auth.delivered", "url.created", "url.updated", "url.deleted", "job.submitted", "job.batch_submitted", "job.canceled", "batch.canceled", "batch.retried", "job.retried", "schedule.created", "schedule.updated", "schedule.toggled", "schedule.deleted", "schedule.triggered", "schedule.disabled", "input.created", "input.updated", "input.deleted", "input.triggered", "input.disabled", "output.created", "output.updated", "output.deleted", "output.tested", "output.recovered", "storage.changed", "storage.removed", "storage.tested", "output.disabled", "delivery.repeated", "schedule.missed", "provider.connected", "provider.updated", "provider.disconnected", "site_session.created", "site_session.deleted", "workflow.created", "workflow.updated", "workflow.cloned", "workflow.published", "workflow.unpublished", "workflow.archived", "workflow.routed", "workflow.mode_set", "workflow.optimized", "suggestion.applied", "suggestion.dismissed", "benchmark.started", "benchmark.canceled", "result.deleted", "result.backfilled", "attributes.saved", "log.level_set", "clock.accepted", "discovery.started", "schema.discovered", "schema.repaired", "schema.drifted", "schema.imported", "bi_query.submitted", "bi_query.refused", "bi_query.canceled", "bi_export.requested", "bi.switched_off", "bi.switched_on", "saved_query.created", "saved_query.updated", "saved_query.deleted", "monitor.created", "monitor.updated", "monitor.deleted", "dashboard.created", "dashboard.updated", "dashboard.deleted", "agent.created", "agent.deleted", "agent.asked", "agent.card_resolved", "auth.reset_link_made", "org.plan_changed", "credits.granted", "recharge.requested", "recharge.approved", "recharge.denied", "backup.started", "mail.retried", "access.denied", "audit.pruned"] | None = None,
        resource_type: str | None = None,
        from_: Time | None = None,
        to: Time | None = None,
        page_size: int | None = None,
    ) -> Iterator[models.AuditLogView]:
        """Who did what, newest first. With Accept: application/x-ndjson the whole of it, one line a row, without pages.

        Gives item after item and asks for the next page when it is needed; `list_audit_logs` has the arguments.

        Args:
            page_size: Rows of a page: 50 unless given, 200 at most.
        """
        cursor: str | None = None
        while True:
            page = self.list_audit_logs(
                actor=actor,
                action=action,
                resource_type=resource_type,
                from_=from_,
                to=to,
                limit=page_size,
                cursor=cursor,
            )
            for item in page["items"]:
                yield item
            cursor = page["nextCursor"]
            if cursor is None:
                return


class Raw(Area):
    """The operations of `raw`."""

    def download_raw(self, token: str) -> bytes:
        """The file behind a signed link; the link is the credential.

        `GET /api/v1/raw/{token}`
        """
        return self._transport.file(
            path("/api/v1/raw/{token}", token=token),
        )


class Reference(Area):
    """The operations of `reference`."""

    def get_open_api(self) -> dict[str, Any]:
        """This document.

        `GET /api/v1/openapi.json`
        """
        answer: dict[str, Any] = self._transport.json(
            "GET",
            "/api/v1/openapi.json",
        )
        return answer


class Areas:
    """All areas of one client."""

    def __init__(self, transport: Transport) -> None:
        self.auth = Auth(transport)
        self.orgs = Orgs(transport)
        self.account = Account(transport)
        self.api_keys = ApiKeys(transport)
        self.cli_auth = CliAuth(transport)
        self.urls = Urls(transport)
        self.providers = Providers(transport)
        self.site_sessions = SiteSessions(transport)
        self.workflows = Workflows(transport)
        self.suggestions = Suggestions(transport)
        self.events = Events(transport)
        self.jobs = Jobs(transport)
        self.schedules = Schedules(transport)
        self.inputs = Inputs(transport)
        self.outputs = Outputs(transport)
        self.benchmarks = Benchmarks(transport)
        self.extraction = Extraction(transport)
        self.storage = Storage(transport)
        self.discovery = Discovery(transport)
        self.drift = Drift(transport)
        self.billing = Billing(transport)
        self.bi = Bi(transport)
        self.dashboards = Dashboards(transport)
        self.monitors = Monitors(transport)
        self.agents = Agents(transport)
        self.analytics = Analytics(transport)
        self.audit = Audit(transport)
        self.raw = Raw(transport)
        self.reference = Reference(transport)
