# Runs the commands of a guide page: the lines of its code blocks that begin with "$ ". Each must end with status 0.
page=$1
folder=$(mktemp -d)
cd "$folder" || exit 1
ln -s "$TALLY_PROGRAMS"/* .
sed -n 's/^\$ //p' "$page" > commands
while read -r line; do
    timeout 120 sh -c "$line" > out 2>&1 < /dev/null || { echo "status $?: $line"; tail -3 out; }
done < commands
echo "$(basename "$page"): $(wc -l < commands) commands"
rm -r "$folder"
