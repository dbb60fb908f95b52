//! Which of the objects that it watches a store holds.

use kube::Resource;

use crate::object::{Object, controller_ref, group};

/// The objects that somebody has asked a store for. What nobody has takes no memory: a cluster may have
/// thousands of Deployments, of which an operator controls a few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    All,
    /// Those whose controller is of one of these kinds.
    ControlledBy(Vec<GroupKind>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupKind {
    group: String,
    kind: String,
}

impl Selection {
    /// The objects that have a controller of kind `O`.
    pub fn controlled_by<O: Object>(owner_type: &O::DynamicType) -> Self {
        Self::ControlledBy(vec![GroupKind {
            group: O::group(owner_type).into_owned(),
            kind: O::kind(owner_type).into_owned(),
        }])
    }

    pub fn has(&self, object: &impl Resource) -> bool {
        let Self::ControlledBy(kinds) = self else {
            return true;
        };
        let has_owner = |owner| {
            let mut kinds = kinds.iter();
            kinds.any(|it| it.group == group(owner) && it.kind == owner.kind)
        };
        controller_ref(object).is_some_and(has_owner)
    }

    /// Adds what another one has. Returns whether there is more to hold now.
    pub fn extend(&mut self, other: Self) -> bool {
        match (&mut *self, other) {
            (Self::All, _) => false,
            (_, Self::All) => {
                *self = Self::All;
                true
            }
            (Self::ControlledBy(kinds), Self::ControlledBy(others)) => {
                let before = kinds.len();
                for other in others {
                    if !kinds.contains(&other) {
                        kinds.push(other);
                    }
                }
                kinds.len() > before
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    fn child_of<O: Object<DynamicType = ()> + Default>(is_controlled: bool) -> ConfigMap {
        let mut owner = O::default();
        owner.meta_mut().name = Some("owner".to_owned());
        owner.meta_mut().uid = Some("1".to_owned());
        let reference = match is_controlled {
            true => owner.controller_owner_ref(&()),
            false => owner.owner_ref(&()),
        };
        let mut child = ConfigMap::default();
        child.metadata.owner_references = reference.map(|it| vec![it]);
        child
    }

    #[test]
    fn it_has_the_children_of_the_kinds_that_were_asked_for() {
        let mut selection = Selection::controlled_by::<Secret>(&());
        assert!(selection.has(&child_of::<Secret>(true)));
        assert!(!selection.has(&child_of::<Secret>(false)));
        assert!(!selection.has(&child_of::<Deployment>(true)));
        assert!(!selection.has(&ConfigMap::default()));

        assert!(!selection.extend(Selection::controlled_by::<Secret>(&())));
        assert!(selection.extend(Selection::controlled_by::<Deployment>(&())));
        assert!(selection.has(&child_of::<Secret>(true)));
        assert!(selection.has(&child_of::<Deployment>(true)));
        assert!(selection.extend(Selection::All) && selection.has(&ConfigMap::default()));
        assert!(!selection.extend(Selection::controlled_by::<Secret>(&())));
    }
}
