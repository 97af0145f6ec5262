#!/usr/bin/env bash
# Style of names and prose, as numbers that may only fall: `tools/style.sh` prints each with its bound and fails if one is
# above it. Who lowers a number lowers its bound here, too. `tools/style.sh LIST` prints what a line counts.
set -euo pipefail
cd "$(dirname "$0")/.."

# First paragraph of every doc comment, one a line.
docs() {
    find src -name '*.rs' | sort | xargs awk '
        FNR == 1 { if (t != "") print t; t = ""; done = 0 }
        !/^ *\/\/[\/!]/ { if (t != "") print t; t = ""; done = 0; next }
        { line = $0; sub(/^ *\/\/[\/!] ?/, "", line)
          if (line == "") { done = (t != "") } else if (!done) t = (t == "" ? line : t " " line) }
        END { if (t != "") print t }'
}

# Comments, pages of the guide, README and headers of scenarios.
prose() {
    grep -rhE '^ *//' src --include='*.rs'
    cat src/guide/*.md README.md
    grep -rhE '^ *#' scenarios --include='*.toml'
}

# Texts that a user reads: strings of the program that hold more than one word.
messages() {
    grep -rhoE '"[^"]* [^"]*"' src --include='*.rs'
}

dialect='told|tells?|hears?|heard|porter|errands?|muster|canary|shelf|parcels?|mischief|conductor|seats?|labs?|upon|nobody|somebody'
dialect+='|everybody|whoever|so many|comes to|came to|at hand|under way|learnt|beside|anew|likewise|of its own'
british='optimis[aei]|normalis|minimis|initialis|serialis|neighbour|behaviour|colour|centre|licence'

# Rust without comments and texts.
code() {
    git ls-files -z '*.rs' | xargs -0 perl -0777 -ne '
        s{//[^\n]*|/\*.*?\*/|\bb?r(\#*)".*?"\1|"(?:[^"\\]|\\.)*"|\x27(?:[^\x27\\\n]|\\.[^\x27]*)\x27}{ }gs; print'
}

wh_summaries() { docs | grep -E '^(What|How|Where|Whether|When|Which|Who|Whom|Whose|Why)[ ,:]'; }
pronoun_summaries() { docs | grep -E '^(The same|Those|These|They|It|As there)[ ,:.]'; }
long_summaries() { docs | sed -E 's/([.!?:]) .*/\1/' | awk 'length > 100'; }
dialect_in_prose() { prose | grep -owiE "$dialect"; }
dialect_in_messages() { messages | grep -owiE "$dialect"; }
# Identifiers with such a word: `told_by`, `TOLD`.
dialect_in_names() {
    code | grep -owE '[A-Za-z_]+' | grep -iE \
        '(^|_)(labs?|seated|parcels?|errand|porter|conductor|told|tell|tells|telling|hears?|heard|unheard|learnt|nobodys?|everybodys?|somebody|whoever|so_many|besides?|upon|anew|begun|foretold|foretells|sketch|wishes|crew|doors?|mates?)(_|$)'
}
british_spelling() { prose | grep -oiE "[a-z]*($british)[a-z]*"; }
shared_type_names() {
    grep -rhoE '^ *(pub(\([^)]*\))? )?(struct|enum|trait) [A-Z]\w*' src --include='*.rs' | awk '{print $NF}' | sort | uniq -d
}
long_test_names() { grep -rhE -A3 '#\[test\]' src tests | grep -oE 'fn \w+' | awk 'length > 63'; }
# Commits since this rule; a shallow clone does not have them.
long_subjects() {
    git rev-parse -q --verify dc22324d654869140d1efd72c70d0244ede410e7^{commit} >/dev/null 2>&1 || return 0
    git log --format=%s dc22324d654869140d1efd72c70d0244ede410e7.. | awk 'length > 72'
}

# What is counted, and the number that it may not exceed.
bounds='
wh_summaries 0
pronoun_summaries 0
long_summaries 1
dialect_in_prose 1
dialect_in_messages 0
dialect_in_names 0
british_spelling 0
shared_type_names 0
long_test_names 116
long_subjects 0
'

if [ $# = 1 ]; then
    "$1"
    exit
fi
failed=0
while read -r name bound; do
    [ -n "$name" ] || continue
    count=$({ "$name" || true; } | wc -l)
    printf '%-22s %6d  bound %6s\n' "$name" "$count" "$bound"
    if [ "$count" -gt "$bound" ]; then
        failed=1
        echo "  help: \`tools/style.sh $name\` lists them; CONTRIBUTING.md says how fedcast is written" >&2
    fi
done <<<"$bounds"
exit "$failed"
