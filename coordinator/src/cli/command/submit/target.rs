//! The device classes of a submission that names none.

use crate::cli::client::Client;
use crate::driver::request::NodeView;
use fleet_config::refusal::Refusal;
use std::collections::BTreeSet;

/// Every device class of the nodes that are ready. CPUs and GPUs are measured by different policies and never
/// ranked together, so a fleet of both needs to be told.
pub(in crate::cli::command) async fn fleet_classes(client: &mut Client) -> Result<Vec<String>, Refusal> {
    let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
    classes_of(&nodes)
}

fn classes_of(nodes: &[NodeView]) -> Result<Vec<String>, Refusal> {
    let ready = nodes.iter().filter(|node| node.state == "ready");
    let devices: Vec<_> = ready.flat_map(|node| node.devices.iter()).collect();
    let of = |kind: &str| -> BTreeSet<String> {
        let of_kind = devices.iter().filter(|device| device.kind == kind);
        of_kind.map(|device| device.architecture.clone()).collect()
    };
    let (cpus, gpus) = (of("cpu"), of("gpu"));
    if cpus.is_empty() && gpus.is_empty() {
        return Err(Refusal::new(
            "submit/no-node",
            "--on",
            "no node takes work now, so there is no class to choose",
            "see `muster node list`, or name classes with --on: their cells wait until a node takes them",
        ));
    }
    if cpus.is_empty() || gpus.is_empty() {
        return Ok(cpus.into_iter().chain(gpus).collect());
    }
    let list = |classes: &BTreeSet<String>| classes.iter().cloned().collect::<Vec<_>>().join(",");
    Err(Refusal::new(
        "submit/mixed-fleet",
        "--on",
        format!(
            "this fleet has CPUs ({}) and GPUs ({}), which are measured by different policies",
            list(&cpus),
            list(&gpus)
        ),
        format!("say which: --on {} or --on {}", list(&gpus), list(&cpus)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::request::DeviceView;

    fn node(state: &str, devices: &[(&str, &str)]) -> NodeView {
        let device = |(kind, architecture): &(&str, &str)| DeviceView {
            id: String::new(),
            kind: (*kind).to_owned(),
            architecture: (*architecture).to_owned(),
            model: String::new(),
            running: String::new(),
            health: String::new(),
            health_cause: String::new(),
            drift_ppm: String::new(),
        };
        NodeView {
            node: String::new(),
            name: String::new(),
            state: state.to_owned(),
            devices: devices.iter().map(device).collect(),
        }
    }

    #[test]
    fn a_fleet_of_one_kind_needs_no_target_and_a_mixed_one_does() {
        let (old, new) = (("cpu", "cpu:x86-64-v2"), ("cpu", "cpu:x86-64-v3"));
        let gpu = ("gpu", "nvidia:sm_90a");
        let cpus = [node("ready", &[new]), node("ready", &[old, new]), node("ready, away", &[gpu])];
        assert_eq!(classes_of(&cpus).unwrap(), ["cpu:x86-64-v2", "cpu:x86-64-v3"]);
        assert_eq!(classes_of(&[node("ready", &[gpu])]).unwrap(), ["nvidia:sm_90a"]);
        let refusal = classes_of(&[node("ready", &[old, gpu])]).unwrap_err();
        assert_eq!(refusal.code, "submit/mixed-fleet");
        assert!(refusal.next.contains("--on nvidia:sm_90a") && refusal.next.contains("--on cpu:x86-64-v2"));
        assert_eq!(classes_of(&[]).unwrap_err().code, "submit/no-node");
    }
}
