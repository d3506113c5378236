# Two regions on real S3 servers (versitygw), and the programs that judge them. To be sourced after checks.sh; needs $work,
# VERSITYGW, RCLONE and AWS. Each region is a process of its own over a folder: $work/REGION/data/BUCKET/KEY is the object.
declare -A region_port region_pid region_aws
readonly S3_KEY=test S3_SECRET=testtest
export AWS_ACCESS_KEY_ID=$S3_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET AWS_EC2_METADATA_DISABLED=true
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_PAGER= RCLONE_CONFIG=/dev/null
unset AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_CA_BUNDLE AWS_SESSION_TOKEN # the last: rclone 1.60 does not start with a bundle

# start_region NAME AWS_REGION [OPTION...]: starts it on a free port; a second start of a name uses its data again.
# Options of the gateway's posix backend, such as --versioning-dir.
start_region() {
  local name=$1 aws_region=$2 port upper=${1^^}
  shift 2
  port=$(free_port)
  mkdir -p "$work/$name/data" "$work/$name/iam"
  (cd "$work/$name" && exec env ROOT_ACCESS_KEY=$S3_KEY ROOT_SECRET_KEY=$S3_SECRET "$VERSITYGW" --quiet --port "127.0.0.1:$port" \
    --region "$aws_region" --iam-dir "$work/$name/iam" posix "$@" "$work/$name/data") >"$work/$name.log" 2>&1 &
  region_pid[$name]=$!
  region_port[$name]=$port
  region_aws[$name]=$aws_region
  listens "$port" "${region_pid[$name]}" || { bad "region $name did not start"; tail -n 5 "$work/$name.log"; return 1; }
  export "RCLONE_CONFIG_${upper}_TYPE=s3" "RCLONE_CONFIG_${upper}_PROVIDER=Other" "RCLONE_CONFIG_${upper}_ENDPOINT=http://127.0.0.1:$port" \
    "RCLONE_CONFIG_${upper}_ACCESS_KEY_ID=$S3_KEY" "RCLONE_CONFIG_${upper}_SECRET_ACCESS_KEY=$S3_SECRET" \
    "RCLONE_CONFIG_${upper}_REGION=$aws_region" "RCLONE_CONFIG_${upper}_FORCE_PATH_STYLE=true"
}

stop_regions() {
  local name
  for name in "${!region_pid[@]}"; do
    kill "${region_pid[$name]}" 2>/dev/null
    wait "${region_pid[$name]}" 2>/dev/null
  done
  region_pid=()
}

endpoint() { echo "http://127.0.0.1:${region_port[$1]}"; } # NAME

# aws_in NAME ARGUMENT...: the AWS client on a region.
aws_in() { "$AWS" --endpoint-url "$(endpoint "$1")" --region "${region_aws[$1]}" "${@:2}"; }

# bucket_in NAME COMMAND...: scripts/judges/bucket.py on a region, with the Python of the AWS client. Call it in the repository's root.
bucket_in() { AWS_DEFAULT_REGION=${region_aws[$1]} "${AWS%/aws}/python" scripts/judges/bucket.py "${@:2}"; }

# url NAME BUCKET/PREFIX [PORT]: a place as drkit takes it on the command line.
url() { echo "s3://$2?endpoint=http://127.0.0.1:${3:-${region_port[$1]}}&path_style=true&region=${region_aws[$1]}"; }
