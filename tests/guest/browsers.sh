# Two browsers without a display: one tells a page's text behind its script, the other paints a page.
. /tests/lib.sh
export HOME=/root XDG_RUNTIME_DIR=/tmp
mkdir -p /root
cd /root || exit 1

echo '<html><body><script>document.body.innerHTML = [1, 2, 3].map(x => x * x).join()</script></body></html>' >script.html
chromium="/usr/lib/chromium/chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage"
text=$(timeout 300 $chromium --dump-dom file:///root/script.html 2>/tmp/told | sed -n 's/.*<body>//p')
is "chromium runs a page's script" "1,4,9" "$text"
[ "$text" = 1,4,9 ] || tail -n 5 /tmp/told | sed 's/^/# /'

echo '<html><body style="background: #00f000"></body></html>' >green.html
timeout 300 firefox-esr --headless --no-remote --window-size 64,48 --screenshot /tmp/green.png file:///root/green.html >/tmp/told 2>&1
is "firefox ends well" 0 $?
pngtopnm /tmp/green.png >/tmp/green.ppm
is "and has painted the page" "64 48" "$(sed -n 2p /tmp/green.ppm)"
is "in one colour" "0 240 0 3072" "$(ppmhist -noheader /tmp/green.ppm | awk '{ print $1, $2, $3, $5 }')"
plan
