//! What the runtime requires of the kinds that it handles.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::core::{ClusterResourceScope, DynamicResourceScope, NamespaceResourceScope};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::Error;
use serde_json::Value;

use crate::without_managed_fields::WithoutManagedFields;

/// An object that a [`Store`](crate::Store) can hold: the types of k8s-openapi, custom resources,
/// `PartialObjectMeta` of either where a reconciler needs the metadata alone, and `DynamicObject`.
///
/// It is implemented for every type that qualifies.
pub trait Object:
    Resource<DynamicType: DynamicType, Scope: Scope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType: DynamicType, Scope: Scope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// What identifies a kind at run time: `()` for typed objects, `ApiResource` for `DynamicObject`.
pub trait DynamicType: Clone + Debug + Eq + Hash + Send + Sync + Unpin + 'static {}

impl<T: Clone + Debug + Eq + Hash + Send + Sync + Unpin + 'static> DynamicType for T {}

/// The scope of a kind.
pub trait Scope {
    /// Whether objects have a namespace; `None` where only the object knows.
    const NAMESPACED: Option<bool>;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: Option<bool> = Some(true);
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: Option<bool> = Some(false);
}

impl Scope for DynamicResourceScope {
    const NAMESPACED: Option<bool> = None;
}

/// The objects of kind `K` in `namespace`, or in all namespaces. A cluster-scoped kind ignores it.
pub(crate) fn api<K: Object>(
    client: &Client,
    namespace: Option<&str>,
    dyntype: &K::DynamicType,
) -> Api<WithoutManagedFields<K>> {
    match namespace.filter(|_| K::Scope::NAMESPACED != Some(false)) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, dyntype),
        None => Api::all_with(client.clone(), dyntype),
    }
}

/// A reference with the object's namespace and name alone: there are many of them.
pub(crate) fn reference<K: Object>(object: &K, dyntype: &K::DynamicType) -> ObjectRef<K> {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let mut reference = ObjectRef::new_with(name, dyntype.clone());
    reference.namespace.clone_from(&meta.namespace);
    reference
}

/// What the kind is called in logs and metrics: `<kind>.<group>`, as in `deployment.apps`.
pub(crate) fn kind_name<K: Object>(dyntype: &K::DynamicType) -> String {
    let kind = K::kind(dyntype).to_lowercase();
    match K::group(dyntype).as_ref() {
        "" => kind,
        group => format!("{kind}.{group}"),
    }
}

/// How many bytes of JSON most objects take at most.
const JSON: usize = 4 << 10;

/// An object as JSON.
pub(crate) fn json_of(object: &impl Serialize) -> serde_json::Result<String> {
    let mut json = Vec::with_capacity(JSON);
    serde_json::to_writer(&mut json, object)?;
    String::from_utf8(json).map_err(Error::custom)
}

/// An object as a tree. `serde_json::to_value` would be a second serializer of each kind, in the binary and in memory.
pub(crate) fn tree_of(object: &impl Serialize) -> serde_json::Result<Value> {
    serde_json::from_str(&json_of(object)?)
}

/// The owner reference of the object's controller.
pub(crate) fn controller_ref(object: &impl Resource) -> Option<&OwnerReference> {
    let mut owners = object.meta().owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// What is told of owners.
pub(crate) fn hash_owners(meta: &ObjectMeta, hasher: &mut impl Hasher) {
    for owner in meta.owner_references.iter().flatten() {
        (&owner.api_version, &owner.kind, &owner.name, &owner.uid).hash(hasher);
        (owner.controller, owner.block_owner_deletion).hash(hasher);
    }
}

/// The controller of the object, if it is of kind `O`. The version does not count: an object keeps
/// the owner reference that it was created with.
pub(crate) fn controller_of<O: Object>(
    object: &impl Resource,
    owner_type: &O::DynamicType,
) -> Option<ObjectRef<O>> {
    let owner = controller_ref(object).filter(|owner| is_of_kind::<O>(owner, owner_type))?;
    let mut reference = ObjectRef::new_with(&owner.name, owner_type.clone());
    if O::Scope::NAMESPACED != Some(false) {
        reference.namespace.clone_from(&object.meta().namespace);
    }
    Some(reference)
}

fn is_of_kind<O: Object>(reference: &OwnerReference, owner_type: &O::DynamicType) -> bool {
    group(reference) == O::group(owner_type) && reference.kind == O::kind(owner_type)
}

/// The API group of an owner.
pub(crate) fn group(reference: &OwnerReference) -> &str {
    let version = reference.api_version.split_once('/');
    version.map_or("", |(group, _)| group)
}

/// Whether `owner` is the controller of the object.
pub(crate) fn is_controlled(object: &impl Resource, owner: &impl Resource) -> bool {
    controller_ref(object)
        .is_some_and(|reference| Some(&reference.uid) == owner.meta().uid.as_ref())
}

/// Whether the object belongs to a deleted predecessor of `owner`, of the same kind and name: it is
/// about to be garbage-collected. Do not use it, and wait until it is gone.
pub fn has_dangling_owner<O: Object>(
    object: &impl Resource,
    owner: &O,
    owner_type: &O::DynamicType,
) -> bool {
    let owners = object.meta().owner_references.as_deref();
    let is_predecessor = |reference: &OwnerReference| {
        is_of_kind::<O>(reference, owner_type)
            && reference.name == owner.name_any()
            && Some(&reference.uid) != owner.meta().uid.as_ref()
    };
    owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(is_predecessor))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    #[test]
    fn children_of_a_predecessor_dangle() {
        let mut owner = Secret::default();
        owner.metadata.name = Some("a".to_owned());
        owner.metadata.uid = Some("1".to_owned());
        let mut object = ConfigMap::default();
        object.metadata.owner_references = owner.controller_owner_ref(&()).map(|it| vec![it]);
        assert!(is_controlled(&object, &owner) && !has_dangling_owner(&object, &owner, &()));

        owner.metadata.uid = Some("2".to_owned());
        assert!(has_dangling_owner(&object, &owner, &()) && !is_controlled(&object, &owner));
        owner.metadata.name = Some("b".to_owned());
        assert!(!has_dangling_owner(&object, &owner, &()), "another owner");
        assert!(!has_dangling_owner(&ConfigMap::default(), &owner, &()));
    }

    #[test]
    fn an_owner_that_exists_keeps_an_object() {
        let owner = |uid: &str| {
            let mut owner = Secret::default();
            owner.metadata.name = Some("a".to_owned());
            owner.metadata.uid = Some(uid.to_owned());
            owner
        };
        let mut object = ConfigMap::default();
        let references = ["1", "2"].map(|uid| owner(uid).owner_ref(&()).unwrap());
        object.metadata.owner_references = Some(references[..1].to_vec());
        assert!(has_dangling_owner(&object, &owner("2"), &()));
        object.metadata.owner_references = Some(references.to_vec());
        assert!(!has_dangling_owner(&object, &owner("2"), &()));
    }
}
