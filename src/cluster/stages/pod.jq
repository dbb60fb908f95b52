# What comes next for a pod, from its behavior and from what its status says.
(.metadata.labels["<label>"] // "") as $label
| (if $label | IN(<behaviors>) then $label else "<default>" end) as $behavior
# A pod that hangs in the end is like others before.
| (if $behavior == "hang" then "ready" else $behavior end) as $first
| (.status.containerStatuses // []) as $containers
# The behavior that its status shows, which is the scheme of a container's ID.
| ($containers[0].containerID // "ready" | split(":")[0]) as $shown
| any(.status.conditions[]?; .type == "Ready" and .status == "True") as $ready
| any(.metadata.ownerReferences[]?; .kind == "Job") as $finishes
| if .metadata.deletionTimestamp != null then
    {"slow": "delete-slowly", "hang": "none"}[$behavior] // "delete"
  elif .status.phase == "Pending" then
    if $ready then "none"
    elif $behavior != "slow" then $first
    elif $containers == [] then "create-slowly"
    else "start-slowly"
    end
  elif .status.phase != "Running" then "none"
  elif $behavior == "crash" and $shown == "crash" then
    if $containers[0].state.waiting then "restart-after-crash"
    elif .spec.restartPolicy == "Never" then "fail"
    else "crash-loop"
    end
  elif $finishes and $behavior != "crash" and $ready then
    if $behavior == "slow" then "complete-slowly" else "complete" end
  elif $behavior == "slow" then
    if $ready then "none" elif $shown == "slow" then "ready-slowly" else "start-slowly" end
  elif $shown != $first then $first
  elif $behavior == "flaky" then (if $ready then "fail-probe" else "pass-probe" end)
  elif $behavior == "restart" then "restart-again"
  else "none"
  end
