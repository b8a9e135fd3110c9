"""nginx's configuration for a class: several processes behind one address.

All that a page asks for is below its process's path (/1/, /2/, …), so that sockets, uploads and
scripts find the process of their session by themselves. Newcomers, who have no such path yet, are
sent to the processes in turn. A run's id begins with its process's number: its link leads there.
"""

from collections.abc import Sequence

from pages.ui.classroom.room import sentence_page

STOPPED = (
    "This part of the class has stopped and is being started again: reload this page in ten "
    "seconds, or open the room's address to start anew. The others are not affected."
)

PROCESS = """
    location = {base}/{n} {{ proxy_pass http://process_{n}; }}
    location {base}/{n}/ {{
      set $other $home;
      if ($home = "{n}") {{ set $other ""; }}
      if ($other) {{ rewrite ^{base}/{n}/(.*)$ {base}/$other/$1 redirect; }}
      proxy_pass http://process_{n};
    }}"""

WHOLE = """# Made by python -m pages.ui.classroom, for as long as the class lasts.
worker_processes 1;
error_log stderr crit;  # lower levels would write people's links
pid {folder}/nginx.pid;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  default_type text/plain;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  # Nothing that is uploaded or downloaded is written to the disk on its way.
  proxy_request_buffering off;
  proxy_max_temp_file_size 0;
  client_max_body_size {upload_mb}m;
  map $http_upgrade $connection_header {{ default upgrade; "" ""; }}
  map $http_x_forwarded_proto $scheme_outside {{ default $http_x_forwarded_proto; "" $scheme; }}
  map $arg_run $home {{ default ""; "~^(?<number>{numbers})-" $number; }}
  proxy_http_version 1.1;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $connection_header;
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme_outside;
  proxy_connect_timeout 5s;
  proxy_read_timeout 10m;
  upstream anybody {{
    zone anybody 64k;
{any}
  }}
{upstreams}
  server {{
    listen {listen};
    error_page 502 503 504 @stopped;{processes}
    location / {{
      if ($home) {{ rewrite ^{base}/(.*)$ {base}/$home/$1 redirect; }}
      proxy_pass http://anybody;
    }}
    location @stopped {{ default_type text/html; return 503 '{stopped}'; }}
  }}
}}
"""


def configuration(
    listen: str, ports: Sequence[int], folder: str, base: str = "", upload_mb: int = 1000
) -> str:
    """For processes at these ports of this machine; what nginx writes goes into the folder."""
    server = "server 127.0.0.1:{port}"
    anybody = f"    {server} max_fails=1 fail_timeout=5s;"
    upstream = f"  upstream process_{{n}} {{{{ {server}; }}}}"
    numbered = list(enumerate(ports, 1))
    return WHOLE.format(
        listen=listen,
        folder=folder,
        base=base,
        upload_mb=upload_mb,
        # The longest first: 12 is not 1.
        numbers="|".join(str(n) for n, _ in reversed(numbered)),
        any="\n".join(anybody.format(port=port) for port in ports),
        upstreams="\n".join(upstream.format(n=n, port=port) for n, port in numbered),
        processes="".join(PROCESS.format(n=n, base=base) for n, _ in numbered),
        stopped=sentence_page(STOPPED).replace("'", "&#39;").replace("\n", " "),
    )
