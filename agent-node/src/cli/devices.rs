//! `muster-node devices`.

use super::DevicesArguments;
use super::doctor::text;
use super::settings::passing_wish;
use agent_node::inventory::{compile_offers, cpu_offers, cuda_offers};
use agent_node::scratch::Scratch;
use fleet_config::domain::{DeviceDescription, field};
use std::process::ExitCode;

pub(crate) fn devices(arguments: &DevicesArguments) -> anyhow::Result<ExitCode> {
    let folder = Scratch::make()?;
    let wish = passing_wish(&arguments.devices, folder.path())?;
    let (gpus, absence) = cuda_offers(&wish);
    let (compiling, lacking) = compile_offers(&wish);
    let offers = cpu_offers(&wish)?.into_iter().chain(gpus).chain(compiling);
    let descriptions: Vec<DeviceDescription> = offers.map(|offer| offer.description).collect();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&descriptions)?);
        return Ok(ExitCode::SUCCESS);
    }
    for device in &descriptions {
        let fact = |name: &str| device.identity.get(name).or_else(|| device.configuration.get(name));
        println!("{}  {}", device.architecture, text(fact(field::DEVICE_MODEL)));
        println!("  memory    {} MiB for candidates", device.memory >> 20);
        println!("  compiler  {}", text(fact(field::COMPILER)));
        println!("  sandbox   {}", text(fact(field::SANDBOX)));
        println!("  clocks    {}", text(fact(field::CLOCK_POLICY)));
    }
    for reason in lacking {
        println!("not compiled for: {reason}");
    }
    if let Some(reason) = absence {
        println!("no CUDA device: {reason}");
    }
    println!("A node derives the names of its CPU devices from its own key, so they are not shown here.");
    Ok(ExitCode::SUCCESS)
}
