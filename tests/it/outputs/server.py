# A server of SFTP that lets in by a password, asked for at once ("password") or as a question ("question"). Its files are below a
# folder. Arguments: port, host key, folder, password, way.
import asyncio
import sys

import asyncssh

PORT, KEY, FOLDER, PASSWORD, WAY = sys.argv[1:]


class Door(asyncssh.SSHServer):
    def begin_auth(self, username):
        return True

    def password_auth_supported(self):
        return WAY == "password"

    def validate_password(self, username, password):
        return username == "writer" and password == PASSWORD

    def kbdint_auth_supported(self):
        return WAY == "question"

    def get_kbdint_challenge(self, username, lang, submethods):
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, username, responses):
        return username == "writer" and list(responses) == [PASSWORD]


class Plain(asyncssh.SFTPServer):
    """Without OpenSSH's extensions where it is asked by a question."""

    def __init__(self, chan):
        super().__init__(chan, chroot=FOLDER)


async def main():
    await asyncssh.create_server(
        Door, "127.0.0.1", int(PORT), server_host_keys=[KEY], sftp_factory=Plain, sftp_version=3
    )
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
